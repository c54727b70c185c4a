#include "tests/unit/coordinator/run/fake_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "worker/pipeline/specs.h"

namespace gimbal::coordinator {

FakeCluster::FakeCluster(int stages, int workers)
    : FakeCluster(FakeSetup(stages, workers)) {}

FakeCluster::FakeCluster(RunSetup setup)
    : run(std::make_unique<RunController>(setup, effects)),
      setup_(setup),
      stages_(setup.config.pipeline().stages()),
      schedule_(worker::ScheduleSpecOf(setup.config)) {
  EXPECT_TRUE(run->Open().ok());
}

int64_t FakeCluster::Join(const std::string& name) {
  v1::RegisterRequest request;
  request.set_name(name);
  request.set_data_address("127.0.0.1:1");
  request.set_snapshot_address("127.0.0.1:2");
  const auto response = run->Register(request, now);
  EXPECT_TRUE(response.ok()) << response.status();
  if (!response.ok()) return 0;
  workers[response->worker_id()];
  Heartbeat(response->worker_id());
  return response->worker_id();
}

void FakeCluster::Revive() {
  effects.rows.resize(effects.flushed);
  RunSetup setup = setup_;
  setup.order = ParseStandingOrder(effects.LastReason(kStandingOrder));
  setup.trace_every = ParseTrace(effects.LastReason(kTraceInForce));
  run = std::make_unique<RunController>(setup, effects);
  EXPECT_TRUE(run->Open().ok());
  effects.sent.clear();
  deaf.clear();
  if (run->exit_code().has_value()) return;

  std::vector<int64_t> found;
  for (auto& [id, fake] : std::exchange(workers, {})) {
    v1::RegisterRequest request;
    request.set_name("w");
    request.set_data_address("127.0.0.1:1");
    request.set_snapshot_address("127.0.0.1:2");
    // Who started from memory cannot tell again what comes after the newest
    // checkpoint.
    if (!fake.gathered.updates().empty()) {
      fake.said.emplace_back().mutable_reports()->Swap(&fake.gathered);
    }
    if (fake.loaded && fake.start <= fake.committed) {
      v1::Holding& holding = *request.mutable_holding();
      holding.set_run_id(setup_.run_id);
      holding.set_generation(fake.generation);
      for (const auto& [stage, version] : fake.versions) {
        holding.add_stages(stage);
      }
      holding.set_until(fake.until);
      holding.set_final_update(fake.final_update);
    }
    for (const auto& [key, generation] : fake.kept) {
      v1::KeptSnapshot& kept = *request.add_kept();
      kept.set_stage(key.first);
      kept.set_update(key.second);
    }
    fake.fresh = true;
    const auto response = run->Register(request, now);
    ASSERT_TRUE(response.ok()) << response.status();
    workers[response->worker_id()] = fake;
    found.push_back(response->worker_id());
  }
  for (int64_t id : found) Heartbeat(id);
}

void FakeCluster::Kill(int64_t worker) {
  workers.erase(worker);
  run->SessionEnded(worker, now);
  Deliver();
}

absl::Status FakeCluster::Say(int64_t worker, v1::WorkerMessage message) {
  if (!message.has_heartbeat()) SendReports(worker);
  FakeWorker& fake = workers[worker];
  if (message.has_reports() || message.has_snapshot() ||
      message.has_finished()) {
    fake.said.push_back(message);
  }
  message.set_worker_id(worker);
  message.set_incarnation(worker);
  message.set_generation(workers[worker].generation);
  const absl::Status status = run->Receive(message, now);
  Deliver();
  return status;
}

bool FakeCluster::SendReports(int64_t worker) {
  v1::WorkerMessage message;
  message.mutable_reports()->Swap(&workers[worker].gathered);
  if (message.reports().updates().empty()) return false;
  EXPECT_TRUE(Say(worker, message).ok());
  return true;
}

void FakeCluster::Heartbeat(int64_t worker) {
  v1::WorkerMessage message;
  message.mutable_heartbeat()->set_peak_rss_bytes(1000);
  const FakeWorker& fake = workers[worker];
  if (fake.trace_every > 0) {
    message.mutable_heartbeat()->set_trace_failure(fake.trace_failure);
    message.mutable_heartbeat()->set_clock_ns(fake.trace_failure.empty());
  }
  EXPECT_TRUE(Say(worker, message).ok());
}

void FakeCluster::Ready(int64_t worker) {
  FakeWorker& fake = workers.at(worker);
  if (fake.ready || fake.versions.empty()) return;
  for (const v1::WorkerMessage& owed : std::exchange(fake.owed, {})) {
    EXPECT_TRUE(Say(worker, owed).ok());
    if (!fake.loaded) return;  // it was given something else
    fake.said.pop_back();      // is there already
  }
  if (SayItCannotReplay(worker)) return;
  fake.ready = fake.loaded = true;
  v1::WorkerMessage message;
  message.mutable_ready();
  EXPECT_TRUE(Say(worker, message).ok());
}

bool FakeCluster::Step(int stage) {
  const int64_t owner = OwnerOf(stage);
  if (owner == 0) return false;
  FakeWorker& fake = workers.at(owner);
  // Without an edge to feed it, it could not go on for long.
  if (!fake.ready) return false;
  const int64_t update = fake.versions.at(stage) + 1;
  if (update > fake.until || update > fake.final_update) return false;
  fake.versions[stage] = update;
  v1::WorkerMessage message;
  v1::StageUpdate& report = *message.mutable_reports()->add_updates();
  report.set_stage(stage);
  report.set_update(update);
  report.set_staleness(worker::ExpectedStaleness(schedule_, stage, update));
  report.set_gradient_square_sum(1.0 / static_cast<double>(update + stage));
  report.mutable_basis()->set_offdiagonal_ratio(
      RatioOf(stage, update, fake.left_out));
  MakeUnderRule(stage, update, fake);
  if (worker::RefreshDue(fake.refresh[stage], update)) {
    refreshes[stage].insert(update);
  }
  const bool last = stage == stages_ - 1;
  if (last) report.set_loss(1.0 / static_cast<double>(update));
  if (const auto bad = bad_losses.find(update);
      last && bad != bad_losses.end()) {
    report.set_loss(bad->second);
  }
  if (const auto bad = bad_gradients.find({stage, update});
      bad != bad_gradients.end()) {
    report.set_gradient_square_sum(bad->second);
    report.set_weights_not_finite(!fake.left_out.contains(update));
  }
  if (const auto cut = fake.cuts.find(update); cut != fake.cuts.end()) {
    if (cut->second.evaluate() && last) {
      v1::Evaluation& evaluation =
          *message.mutable_reports()->add_evaluations();
      evaluation.set_update(update);
      evaluation.set_loss(2.0 / static_cast<double>(update));
    }
    if (cut->second.snapshot()) {
      v1::SnapshotWritten& snapshot = fake.unwritten.emplace_back();
      snapshot.set_update(update);
      snapshot.set_stage(stage);
      snapshot.add_files()->set_path("stage-" + std::to_string(stage));
    }
    if (cut->second.keep()) {
      fake.kept[{stage, update}] = fake.generation;
      fake.unsent.emplace_back(stage, update);
    }
  }
  if (gathers) {
    fake.gathered.MergeFrom(message.reports());
    return true;
  }
  EXPECT_TRUE(Say(owner, message).ok());
  return true;
}

double FakeCluster::RatioOf(int stage, int64_t update,
                            const std::set<int64_t>& left_out) {
  const auto before =
      std::distance(left_out.begin(), left_out.upper_bound(update));
  return 1.0 / static_cast<double>(1 + (update + 3 * stage + 2 * before) % 7);
}

bool FakeCluster::WriteSnapshot(int64_t worker) {
  FakeWorker& fake = workers.at(worker);
  // What is told again goes first.
  if (fake.unwritten.empty() || !fake.owed.empty()) return false;
  v1::WorkerMessage message;
  *message.mutable_snapshot() = fake.unwritten.front();
  fake.unwritten.erase(fake.unwritten.begin());
  EXPECT_TRUE(Say(worker, message).ok());
  return true;
}

bool FakeCluster::SendCopy(int64_t worker) {
  FakeWorker& fake = workers.at(worker);
  // What is told again goes first.
  if (fake.unsent.empty() || !fake.owed.empty()) return false;
  const auto key = fake.unsent.front();
  fake.unsent.erase(fake.unsent.begin());
  const auto copy = fake.kept.find(key);
  if (copy == fake.kept.end()) return true;  // given up
  v1::WorkerMessage message;
  v1::SnapshotKept& kept = *message.mutable_kept();
  kept.set_stage(key.first);
  kept.set_update(key.second);
  kept.set_backup(fake.backup);
  const auto backup = workers.find(fake.backup);
  // Whoever sends again knows that it is still of use.
  const bool again = fake.counted.contains(key);
  const int64_t generation = again ? fake.generation : copy->second;
  if (fake.backup != 0 && (backup == workers.end() || backup->second.fresh ||
                           backup->second.since > generation)) {
    if (again) return true;
    kept.set_error("the backup does not take it");
    fake.kept.erase(copy);
  } else if (fake.backup != 0) {
    backup->second.kept[key] = copy->second;
  }
  EXPECT_TRUE(Say(worker, message).ok());
  return true;
}

void FakeCluster::SendCopies() {
  for (const auto& [id, worker] : std::map(workers)) {
    while (SendCopy(id)) {
    }
  }
}

void FakeCluster::FinishIfDone(int64_t worker) {
  FakeWorker& fake = workers.at(worker);
  if (fake.finished || !fake.ready || !fake.unwritten.empty() ||
      fake.final_update == 0) {
    return;
  }
  for (const auto& [stage, version] : fake.versions) {
    if (version < fake.final_update) return;
  }
  fake.finished = true;
  v1::WorkerMessage message;
  message.mutable_finished();
  EXPECT_TRUE(Say(worker, message).ok());
}

void FakeCluster::RunAll() {
  bool moved = true;
  while (moved && !run->exit_code().has_value()) {
    moved = false;
    std::vector<int64_t> ids;
    for (const auto& [id, fake] : workers) ids.push_back(id);
    for (int64_t id : ids) Ready(id);
    for (int stage = stages_ - 1; stage >= 0; --stage) {
      moved = Step(stage) || moved;
    }
    for (int64_t id : ids) {
      moved = SendReports(id) || moved;
      moved = WriteSnapshot(id) || moved;
      moved = SendCopy(id) || moved;
      FinishIfDone(id);
    }
  }
}

void FakeCluster::Advance(double seconds) {
  for (; seconds > 0.5; seconds -= 0.5) Freeze(0.5);
  Freeze(seconds);
}

void FakeCluster::Freeze(double seconds) {
  now += std::chrono::duration_cast<base::SteadyTime::duration>(
      base::Seconds(seconds));
  run->Tick(now);
  Deliver();
}

absl::StatusOr<v1::CommandResponse> FakeCluster::Command(
    v1::CommandRequest::Verb verb) {
  v1::CommandRequest request;
  request.set_verb(verb);
  return Command(request);
}

absl::StatusOr<v1::CommandResponse> FakeCluster::Command(
    v1::CommandRequest request) {
  request.set_reason("test");
  auto response = run->Command(request, now);
  if (response.ok() && request.verb() == v1::CommandRequest::VERB_REFRESH) {
    // Made before everybody went back, if at all.
    std::erase_if(periods, [&](const auto& made) {
      return made.first.second >= response->update();
    });
  }
  Deliver();
  return response;
}

int64_t FakeCluster::OwnerOf(int stage) const {
  int64_t owner = 0;
  int64_t generation = 0;
  for (const auto& [id, fake] : workers) {
    if (fake.versions.contains(stage) && fake.generation > generation) {
      owner = id;
      generation = fake.generation;
    }
  }
  return owner;
}

}  // namespace gimbal::coordinator
