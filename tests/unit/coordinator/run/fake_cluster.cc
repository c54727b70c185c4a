#include "tests/unit/coordinator/run/fake_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "coordinator/planner/placement.h"
#include "worker/pipeline/specs.h"

namespace gimbal::coordinator {

v1::RunConfig FakeConfig(int stages) {
  v1::RunConfig config;
  config.mutable_run()->set_name("demo");
  config.mutable_run()->set_steps(40);
  config.mutable_data()->set_valid("held-out");
  config.mutable_model()->set_layers(stages);
  config.mutable_model()->set_hidden(8);
  config.mutable_model()->set_heads(2);
  config.mutable_model()->set_context(8);
  config.mutable_model()->set_vocab(16);
  config.mutable_model()->set_mlp_ratio(4);
  config.mutable_batch()->set_microbatch(2);
  config.mutable_batch()->set_accumulate(1);
  config.mutable_pipeline()->set_stages(stages);
  config.mutable_pipeline()->set_schedule(v1::SCHEDULE_KIND_ASYNC_1F1B);
  config.mutable_optimizer()->set_name(v1::OPTIMIZER_NAME_ADAMW);
  config.mutable_optimizer()->set_lr(1e-3);
  config.mutable_optimizer()->mutable_schedule()->set_kind(
      v1::LR_SCHEDULE_KIND_CONSTANT);
  config.mutable_eval()->set_every(5);
  config.mutable_checkpoint()->set_every(10);
  config.mutable_cluster()->mutable_lease()->set_seconds(3);
  config.mutable_cluster()->set_restart_budget(100);
  config.mutable_cluster()->mutable_shrink_after()->set_seconds(30);
  config.mutable_cluster()->mutable_grace()->set_seconds(120);
  config.mutable_guards()->set_nan(v1::GUARD_POLICY_STOP);
  config.mutable_guards()->set_loss_spike_window(10);
  config.mutable_guards()->set_budget(4);
  return config;
}

RunSetup FakeSetup(int stages, int workers) {
  RunSetup setup;
  setup.config = FakeConfig(stages);
  setup.run_id = "demo-1";
  setup.run_dir = "/run";
  setup.checkpoint_root = "/run/checkpoints";
  setup.workers = workers;
  setup.plan = *PlanStages(setup.config);
  return setup;
}

void FakeEffects::Send(int64_t worker, const v1::CoordinatorMessage& message) {
  sent[worker].push_back(message);
}

void FakeEffects::Disconnect(int64_t worker, const absl::Status&) {
  disconnected.insert(worker);
}

absl::StatusOr<int64_t> FakeEffects::Next(Counter counter) {
  return ++counters[counter];
}

void FakeEffects::Record(const std::string& what, const std::string& reason) {
  decisions.push_back(what + ": " + reason);
}

void FakeEffects::StageRestarted(int stage, Loss) { ++restarts[stage]; }

void FakeEffects::SaveRecovery(int64_t number, const Recovery& recovery) {
  recoveries[number] = recovery;
}

absl::Status FakeEffects::SaveRefreshChange(const RefreshChange& change) {
  refresh_changes.push_back(change);
  return absl::OkStatus();
}

absl::Status FakeEffects::SaveLeftOut(const LeftOut& more) {
  left_out.push_back(more);
  return absl::OkStatus();
}

absl::Status FakeEffects::DropCheckpointsAfter(int64_t last) {
  committed.erase(committed.upper_bound(last), committed.end());
  return absl::OkStatus();
}

absl::StatusOr<RunHistory> FakeEffects::History() {
  RunHistory history{.refresh_changes = refresh_changes,
                     .left_out = left_out,
                     .generation = counters[Counter::kGeneration]};
  if (!committed.empty()) history.newest_committed = *committed.rbegin();
  for (const auto& [stage, count] : restarts) {
    history.restarts.resize(stage);
    history.restarts.push_back(count);
  }
  for (const auto& [number, recovery] : recoveries) {
    history.recoveries.push_back(recovery);
  }
  return history;
}

absl::Status FakeEffects::WriteRow(const MetricsRow& row) {
  EXPECT_EQ(row.step, static_cast<int64_t>(rows.size()) + 1);
  if (!rows.empty()) {
    EXPECT_GE(row.seconds, rows.back().seconds);
  }
  rows.push_back(row);
  return absl::OkStatus();
}

absl::Status FakeEffects::FlushRows() {
  flushed = rows.size();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MetricsRow>> FakeEffects::Rows() { return rows; }

absl::StatusOr<std::vector<MetricsRow>> FakeEffects::KeepRows(int64_t last) {
  if (static_cast<int64_t>(rows.size()) < last) {
    return absl::DataLossError("metrics.jsonl: a gap");
  }
  rows.resize(last);
  flushed = rows.size();
  return rows;
}

absl::Status FakeEffects::CommitCheckpoint(const CheckpointContent& content) {
  EXPECT_LE(content.update, static_cast<int64_t>(rows.size()));
  flushed = rows.size();
  if (!commit_error.ok()) return commit_error;
  committed.insert(content.update);
  return absl::OkStatus();
}

void FakeEffects::GiveUpCheckpoint(int64_t update, const std::string&) {
  given_up.push_back(update);
}

absl::StatusOr<int64_t> FakeEffects::NewestCheckpoint() {
  if (!disk_error.ok()) return disk_error;
  int64_t newest = 0;
  for (int64_t update : committed) {
    if (!damaged.contains(update)) newest = update;
  }
  return newest;
}

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
  run = std::make_unique<RunController>(setup_, effects);
  EXPECT_TRUE(run->Open().ok());
  effects.sent.clear();
  if (run->exit_code().has_value()) return;

  std::vector<int64_t> found;
  for (auto& [id, fake] : std::exchange(workers, {})) {
    v1::RegisterRequest request;
    request.set_name("w");
    request.set_data_address("127.0.0.1:1");
    request.set_snapshot_address("127.0.0.1:2");
    if (fake.loaded) {
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

void FakeCluster::Heartbeat(int64_t worker) {
  v1::WorkerMessage message;
  message.mutable_heartbeat()->set_peak_rss_bytes(1000);
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
      1.0 / static_cast<double>(1 + (update + 3 * stage) % 7));
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
  EXPECT_TRUE(Say(owner, message).ok());
  return true;
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

void FakeCluster::Deliver() {
  const auto sent = std::exchange(effects.sent, {});
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
        const int64_t update = said.has_reports()
                                   ? said.reports().updates(0).update()
                               : said.has_snapshot() ? said.snapshot().update()
                                                     : worker.final_update + 1;
        if (update > message.rewire().repeat_after()) {
          worker.owed.push_back(said);
        }
      }
    }
    worker.rewired.assign(message.rewire().edges().begin(),
                          message.rewire().edges().end());
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

void Start(FakeCluster& cluster, int workers) {
  std::vector<int64_t> ids;
  for (int i = 0; i < workers; ++i) ids.push_back(cluster.Join());
  for (int64_t id : ids) cluster.Ready(id);
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_RUNNING);
}

void Train(FakeCluster& cluster, int count) {
  for (int i = 0; i < count; ++i) {
    for (int stage = 0; stage < cluster.stages(); ++stage) cluster.Step(stage);
  }
}

void TrainAndKeep(FakeCluster& cluster, int count) {
  Train(cluster, count);
  cluster.SendCopies();
}

void TrainToTheFirstCheckpoint(FakeCluster& cluster) {
  Train(cluster, 12);
  for (const auto& [id, worker] : std::map(cluster.workers)) {
    cluster.WriteSnapshot(id);
  }
  ASSERT_THAT(cluster.effects.committed, ::testing::ElementsAre(10));
}

void ExpectAllRows(const FakeCluster& cluster) {
  const auto& rows = cluster.effects.rows;
  ASSERT_EQ(rows.size(), 40u);
  for (const MetricsRow& row : rows) {
    const double update = static_cast<double>(row.step);
    EXPECT_EQ(row.loss, 1 / update);
    double square_sum = 0;
    for (int stage = 0; stage < cluster.stages(); ++stage) {
      square_sum += 1 / (update + stage);
    }
    EXPECT_EQ(row.grad_norm, std::sqrt(square_sum));
    EXPECT_EQ(row.tokens, 16 * row.step);
    EXPECT_EQ(row.lr, 1e-3);
    EXPECT_EQ(row.valid_loss.has_value(), row.step % 5 == 0);
  }
}

void FinishAndExpectAllRows(FakeCluster& cluster) {
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  ExpectAllRows(cluster);
}

void Wait(FakeCluster& cluster, int seconds,
          const std::vector<int64_t>& workers) {
  for (int i = 0; i < seconds; ++i) {
    cluster.Advance(1);
    for (int64_t worker : workers) cluster.Heartbeat(worker);
  }
}

RunSetup KeepingSetup() {
  RunSetup setup = FakeSetup(4, 4);
  setup.config.mutable_cluster()->set_peer_snapshot_every(4);
  setup.config.mutable_checkpoint()->set_every(100);
  return setup;
}

RunSetup ShrinkingSetup(int min_workers) {
  RunSetup setup = FakeSetup(3, 3);
  setup.config.mutable_cluster()->set_min_workers(min_workers);
  setup.config.mutable_cluster()->mutable_shrink_after()->set_seconds(10);
  return setup;
}

}  // namespace gimbal::coordinator
