// What workers do with the messages they get.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/unit/coordinator/run/fake_cluster.h"

namespace gimbal::coordinator {

namespace {

// What the message says of later updates, as a worker tells it again.
std::optional<v1::WorkerMessage> Beyond(int64_t update,
                                        v1::WorkerMessage message) {
  if (message.has_snapshot() && message.snapshot().update() <= update) {
    return std::nullopt;
  }
  if (!message.has_reports()) return message;
  const auto old = [update](const auto& report) {
    return report.update() <= update;
  };
  v1::StageReports& reports = *message.mutable_reports();
  google::protobuf::RepeatedPtrField<v1::StageUpdate>& updates =
      *reports.mutable_updates();
  updates.erase(std::remove_if(updates.begin(), updates.end(), old),
                updates.end());
  google::protobuf::RepeatedPtrField<v1::Evaluation>& evaluations =
      *reports.mutable_evaluations();
  evaluations.erase(std::remove_if(evaluations.begin(), evaluations.end(), old),
                    evaluations.end());
  if (updates.empty() && evaluations.empty()) return std::nullopt;
  return message;
}

double PeriodOf(const std::vector<worker::RefreshRule>& rules, int64_t update) {
  double period = 0;
  for (const worker::RefreshRule& rule : rules) {
    if (rule.from <= update) period = rule.period;
  }
  return period;
}

}  // namespace

void FakeCluster::Deliver() {
  auto sent = std::exchange(effects.sent, {});
  for (const int64_t id : deaf) {
    if (auto waiting = sent.extract(id))
      effects.sent.insert(std::move(waiting));
  }
  for (const auto& [id, messages] : sent) {
    const auto it = workers.find(id);
    if (it == workers.end()) continue;
    for (const auto& message : messages) Handle(it->second, message);
  }
}

void FakeCluster::Handle(FakeWorker& worker,
                         const v1::CoordinatorMessage& message) {
  if (message.has_shutdown()) {
    worker.exit_code = message.shutdown().exit_code();
  } else if (message.has_assignment()) {
    EXPECT_GT(message.generation(), worker.generation);
    CheckOwners(message.assignment());
    Assign(worker, message.generation(), message.assignment());
  } else if (message.has_rewire()) {
    EXPECT_GT(message.generation(), worker.generation);
    EXPECT_EQ(message.rewire().placements_size(), stages_);
    worker.generation = message.generation();
    worker.ready = worker.fresh = false;
    const auto& backups = message.rewire().backups();
    const int64_t backup = backups.empty() ? 0 : backups[0].worker_id();
    if (std::exchange(worker.backup, backup) != backup) SendAgain(worker);
    if (message.rewire().has_repeat_after()) {
      worker.owed.clear();
      for (const v1::WorkerMessage& said : worker.said) {
        if (auto rest = Beyond(message.rewire().repeat_after(), said)) {
          worker.owed.push_back(*std::move(rest));
        }
      }
    }
    worker.rewired.assign(message.rewire().edges().begin(),
                          message.rewire().edges().end());
  } else if (message.has_trace()) {
    worker.trace_every = message.trace().every();
  } else if (message.has_probe_answer()) {
    worker.answered = message.probe_answer().number();
  } else if (message.has_committed() && message.committed().in_memory()) {
    const int64_t update = message.committed().update();
    EXPECT_LE(update, static_cast<int64_t>(effects.rows.size()));
    worker.logs_from = std::max(worker.logs_from, update);
    std::erase_if(worker.kept, [update](const auto& kept) {
      return kept.first.second < update;
    });
  } else if (message.has_given_up()) {
    std::erase_if(worker.kept, [&](const auto& kept) {
      return kept.first.second == message.given_up().update();
    });
  } else if (message.has_committed()) {
    EXPECT_GT(message.committed().update(), worker.committed);
    worker.committed = message.committed().update();
    worker.logs_from = std::max(worker.logs_from, worker.committed);
  } else if (message.has_grant()) {
    const v1::Grant& grant = message.grant();
    EXPECT_EQ(message.generation(), worker.generation);
    EXPECT_GT(grant.until(), worker.until);
    EXPECT_LE(grant.until(), grant.final_update());
    // No stage may have fed a microbatch beyond the last update.
    if (worker.until > worker.start) {
      const int64_t fed = worker.until + worker::Delay(schedule_, 0);
      EXPECT_GE(grant.final_update(), std::min(fed, worker.final_update));
    }
    for (const v1::Cut& cut : grant.cuts()) {
      EXPECT_GT(cut.update(), worker.until);
      EXPECT_LE(cut.update(), grant.until());
      worker.cuts[cut.update()] = cut;
    }
    CheckRules(worker, grant);
    worker.refresh.clear();
    for (const v1::RefreshRule& rule : grant.refresh()) {
      worker.refresh[rule.stage()].push_back({rule.from(), rule.period()});
    }
    worker.left_out.clear();
    for (const v1::LeftOut& range : grant.left_out()) {
      for (int64_t u = range.first(); u <= range.last(); ++u) {
        worker.left_out.insert(u);
      }
    }
    worker.until = grant.until();
    worker.final_update = grant.final_update();
  }
}

void FakeCluster::Assign(FakeWorker& worker, int64_t generation,
                         const v1::Assignment& assignment) {
  FakeWorker now;
  now.generation = generation;
  now.assigned = generation;
  now.start = now.until = now.logs_from = assignment.start_update();
  now.trace_every = worker.trace_every;
  if (assignment.sources().empty()) now.committed = now.start;
  if (!worker.fresh) now.kept = worker.kept;
  if (assignment.since() > worker.generation) {
    std::erase_if(now.kept, [&](const auto& kept) {
      return kept.first.second > assignment.start_update();
    });
  }
  now.since = std::max(worker.since, assignment.since());
  now.fresh = false;
  if (!assignment.backups().empty()) {
    now.backup = assignment.backups(0).worker_id();
  }
  for (int stage : assignment.stages()) {
    now.versions[stage] = assignment.start_update();
    if (!assignment.sources().empty()) TakeFromMemory(now, stage, assignment);
  }
  assigned_[generation] += assignment.stages_size();
  if (assigned_[generation] == stages_) {
    went_back_[generation] = assignment.start_update();
  }
  worker = now;
}

void FakeCluster::SendAgain(FakeWorker& worker) {
  for (const auto& [key, generation] : worker.kept) {
    if (!worker.versions.contains(key.first)) continue;
    worker.counted.insert(key);
    worker.unsent.push_back(key);
  }
}

void FakeCluster::TakeFromMemory(FakeWorker& worker, int stage,
                                 const v1::Assignment& assignment) {
  const std::pair key(stage, assignment.start_update());
  bool found = false;
  for (const v1::SnapshotAddress& source : assignment.sources()) {
    if (source.stage() != stage) continue;
    EXPECT_EQ(source.address(), "127.0.0.1:2");
    const FakeWorker& from = workers.at(source.worker_id());
    const auto kept = from.kept.find(key);
    ASSERT_NE(kept, from.kept.end())
        << "stage " << stage << " of update " << key.second << " at worker "
        << source.worker_id();
    for (const auto& [generation, update] : went_back_) {
      if (generation > kept->second) {
        EXPECT_LE(key.second, update);
      }
    }
    worker.kept[key] = kept->second;
    found = true;
  }
  worker.counted.insert(key);
  worker.unsent.push_back(key);
  EXPECT_TRUE(found) << "stage " << stage;
}

// As a link does whose neighbour needs what is not kept any more.
bool FakeCluster::SayItCannotReplay(int64_t worker) {
  const FakeWorker& fake = workers.at(worker);
  for (const int edge : fake.rewired) {
    for (const int stage : {edge, edge + 1}) {
      const int64_t owner = OwnerOf(stage);
      if (owner == 0 || owner == worker) continue;
      const FakeWorker& neighbour = workers.at(owner);
      if (neighbour.assigned != fake.generation ||
          neighbour.start >= fake.logs_from) {
        continue;
      }
      v1::WorkerMessage message;
      message.mutable_failure()->set_kind(v1::WorkerFailure::KIND_REPLAY);
      message.mutable_failure()->set_edge(edge);
      message.mutable_failure()->set_reason("messages are not kept");
      EXPECT_TRUE(Say(worker, message).ok());
      return true;
    }
  }
  return false;
}

void FakeCluster::CheckRules(const FakeWorker& worker,
                             const v1::Grant& grant) const {
  std::map<int, std::vector<std::pair<int64_t, double>>> before, now;
  for (const auto& [stage, rules] : worker.refresh) {
    for (const worker::RefreshRule& rule : rules) {
      if (rule.from > worker.until) continue;
      before[stage].emplace_back(rule.from, rule.period);
    }
  }
  for (const v1::RefreshRule& rule : grant.refresh()) {
    if (rule.from() > worker.until) continue;
    now[rule.stage()].emplace_back(rule.from(), rule.period());
  }
  EXPECT_TRUE(before.empty() || before == now)
      << "of what was granted before, up to update " << worker.until;
}

// Only what a guard decides changes what was made before.
void FakeCluster::MakeUnderRule(int stage, int64_t update,
                                const FakeWorker& worker) {
  const auto rules = worker.refresh.find(stage);
  // What is made without knowing the last decision is void.
  if (rules == worker.refresh.end() ||
      worker.left_out.size() < left_out_.size()) {
    return;
  }
  for (const int64_t u : worker.left_out) {
    if (left_out_.contains(u)) continue;
    left_out_ = worker.left_out;
    std::erase_if(periods,
                  [u](const auto& made) { return made.first.second >= u; });
    break;
  }
  const double period = PeriodOf(rules->second, update);
  const auto [noted, first] = periods.emplace(std::pair(stage, update), period);
  EXPECT_TRUE(first || noted->second == period)
      << "stage " << stage << " made update " << update << " under period "
      << noted->second << ", and again under " << period;
}

void FakeCluster::CheckOwners(const v1::Assignment& assignment) const {
  EXPECT_EQ(assignment.placements_size(), stages_);
  int next_block = 0;
  for (int stage = 0; stage < assignment.placements_size(); ++stage) {
    const v1::StagePlacement& placement = assignment.placements(stage);
    EXPECT_EQ(placement.stage(), stage);
    EXPECT_EQ(placement.first_block(), next_block);
    EXPECT_TRUE(workers.contains(placement.worker_id()));
    next_block += placement.blocks();
  }
}

}  // namespace gimbal::coordinator
