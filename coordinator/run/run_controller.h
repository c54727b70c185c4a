// Owns a run: decides who hosts which stage, how far the stages may run, when a
// checkpoint counts and when the run is over. Pure: events and the time come in
// through the methods, everything else goes out through RunEffects.
//
// clang-format off
//   RunController run(setup, effects);
//   absl::Status opened = run.Open();        // once, before all else
//   auto admitted = run.Register(request, now);
//   absl::Status status = run.Receive(message, now);  // not OK: end session
//   run.Tick(now);                                    // see TickPeriod
//   if (run.exit_code()) ...                          // the run is over
// clang-format on
//
// A loss has two cures, and neither shows in the numbers. Replay: the lost
// stages start from the newest cut under a new generation and are fed again
// what their neighbours have kept; all others stay as they are. Going back,
// which is also how a run is resumed: drop the metrics rows beyond the newest
// good cut and assign every stage from there. A cut is a checkpoint on disk, or
// the snapshots in the workers' memories (cluster.peer_snapshot_every).
//
// Grants: stages run up to `until`; what is decided about a later update goes
// out with the grant that first covers it, so it reaches every stage in time.
// A pause holds `until` where it is, a checkpoint on demand marks the first
// update beyond it, a stop is such a checkpoint with no grant after it, and a
// drain lowers the last update to one that no stage has fed yet.
//
// Not thread-safe; runs on the coordinator's loop. Every file of the class
// holds one verb: run_controller.cc (events), _recover, _guards, _assign,
// _progress, _memory, _commands, _status.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "coordinator/checkpoint/memory_cuts.h"
#include "coordinator/checkpoint/snapshot_collector.h"
#include "coordinator/ledger/run_statistics.h"
#include "coordinator/ledger/version_ledger.h"
#include "coordinator/membership/worker_table.h"
#include "coordinator/run/grant_window.h"
#include "coordinator/run/guards.h"
#include "coordinator/run/recovery.h"
#include "coordinator/run/refresh_scheduler.h"
#include "coordinator/run/run_effects.h"
#include "coordinator/run/run_state.h"
#include "coordinator/run/standing_order.h"
#include "gimbal/v1/admin_service.pb.h"
#include "gimbal/v1/control_service.pb.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::coordinator {

// How often to tick: often enough for this lease.
std::chrono::milliseconds TickPeriod(const v1::RunConfig& config);

struct RunSetup {
  v1::RunConfig config;
  std::string run_id;
  std::string run_dir;
  std::string checkpoint_root;
  int workers = 1;  // that share the stages; at most one per stage
  std::vector<v1::StagePlacement> plan;  // PlanStages(config)
  std::string numerics;  // of the newest kNumerics decision; empty: none yet
  StandingOrder order;   // of the newest kStandingOrder decision
  std::optional<int64_t> trace_every;  // of the newest kTraceInForce decision
};

// Decision whose reason is the numerics string that the run goes on with.
inline constexpr char kNumerics[] = "numerics";

class RunController {
 public:
  // `effects` must outlive the controller.
  RunController(RunSetup setup, RunEffects& effects);

  // Takes up the run at its newest checkpoint. A run whose last update was done
  // before is over at once. An error says what of the run's files is missing;
  // then nothing was changed and the controller is of no use.
  absl::Status Open();

  // Codes as in control_service.proto.
  absl::StatusOr<v1::RegisterResponse> Register(
      const v1::RegisterRequest& request, base::SteadyTime now);
  // ABORTED when the sender is not a current worker: its session must end.
  // Messages of an older generation are ignored.
  absl::Status Receive(const v1::WorkerMessage& message, base::SteadyTime now);
  // ABORTED when it is not, or no longer, the current incarnation of a worker.
  absl::Status Admits(int64_t worker, int64_t incarnation) const;
  // The stream of the worker is gone.
  void SessionEnded(int64_t worker, base::SteadyTime now);
  // When so much time has passed since the last tick that leases cannot be
  // trusted (the machine or the whole job was stopped), every lease begins
  // anew instead of running out.
  void Tick(base::SteadyTime now);

  absl::StatusOr<v1::CommandResponse> Command(const v1::CommandRequest& request,
                                              base::SteadyTime now);
  // Fails the run: a file of the run cannot be written any more.
  void Fail(const std::string& reason);

  // Set once the run is over; then every worker was told to shut down.
  std::optional<int> exit_code() const { return exit_code_; }
  v1::GetStatusResponse Status(base::SteadyTime now) const;
  const std::vector<Recovery>& recoveries() const { return recoveries_; }
  v1::RunState state() const { return machine_.state(); }
  const RunSetup& setup() const { return setup_; }

 private:
  struct StageInfo {
    std::optional<v1::StageStatus> status;  // as its worker last told
    std::optional<v1::BasisHealth> basis;   // likewise
    int restarts = 0;         // under this coordinator; the budget's measure
    int restarts_before = 0;  // under earlier ones
    std::string lost;         // what became of its last worker
  };

  // run_controller.cc
  bool Counts(const v1::WorkerMessage& message) const;
  void NoteNumerics(const std::string& numerics);
  void OnReady(int64_t worker, base::SteadyTime now);
  void OnFailure(int64_t worker, const v1::WorkerFailure& failure,
                 base::SteadyTime now);
  void NoteStages(
      const google::protobuf::RepeatedPtrField<v1::StageStatus>& stages);
  void AnswerProbe(int64_t worker, int64_t number);
  void NotePeakRss(int64_t worker, int64_t bytes);
  void NoteTrace(int64_t worker, const v1::Heartbeat& heartbeat,
                 base::SteadyTime now);
  bool Transition(v1::RunState to, const std::string& reason);
  bool Training() const;
  absl::Status HasEnded() const;
  void End(v1::RunState state, int exit_code, const std::string& reason);
  void EndEarly(const std::string& reason);

  // What a worker has of its stages.
  struct Hosting {
    int64_t since = 0;    // generation it was given them under
    bool loaded = false;  // it was ready once
    int64_t until = 0;    // granted to it under an earlier coordinator
  };

  // run_controller_recover.cc
  void Lose(int64_t worker, Loss loss, base::SteadyTime now);
  void Recover(int stage, const std::string& reason, base::SteadyTime now);
  void SaveRecovery();
  void CountRestart(int stage, Loss loss, const std::string& reason);
  bool Recovering() const;
  void TakeUpRows(const std::vector<MetricsRow>& rows);
  absl::Status RestartFromNewest();
  void RestartFrom(int64_t update, const std::vector<MetricsRow>& rows);
  std::optional<std::string> WhyNotReplay() const;
  // The cut from which stages start.
  struct Origin {
    int64_t update = 0;
    bool in_memory = false;
  };
  absl::StatusOr<std::optional<Origin>> ReplayOrigin(std::string& why_not);
  absl::Status ReplayOrGoBack();
  absl::Status GoBack(const std::string& why);
  void Replay(Origin origin);
  std::string EdgesAgain() const;
  bool HoldingCounts(int64_t worker) const;
  void TakeUpHoldings(const std::vector<int64_t>& alive);
  bool EveryStageIsHeld(const std::vector<int64_t>& workers) const;
  bool TakeSlots(int64_t worker, const v1::Holding& held);
  bool IsKept(int stage) const;

  // run_controller_guards.cc
  void LeaveOut(LeftOut left_out, base::SteadyTime now);
  absl::Status TakeUpGuards(const RunHistory& history);

  // run_controller_assign.cc
  bool EnoughWorkers(const std::vector<int64_t>& workers, base::SteadyTime now);
  bool FindsCheckpoint(base::SteadyTime now);
  bool HasVacancy() const;
  std::string WhoIsMissing() const;
  void AssignWhenReady(base::SteadyTime now);
  absl::Status BeginOrTakeUp();
  void SpreadOut();
  v1::CoordinatorMessage AssignmentFor(int64_t worker) const;
  v1::CoordinatorMessage RewireFor(int64_t worker) const;
  void FillPlacements(
      google::protobuf::RepeatedPtrField<v1::StagePlacement>& placements) const;
  void SendAssignments();
  void NoteLinks();
  std::set<int64_t> Hosts() const;
  std::vector<int> StagesOf(int64_t worker) const;

  // run_controller_memory.cc
  void OnKept(int64_t worker, const v1::SnapshotKept& kept);
  void CommitMemoryCut();
  void TellAll(const v1::CoordinatorMessage& message);
  void TellGivenUp(int64_t update);
  std::vector<int> LostWithoutSnapshot(int64_t update) const;
  absl::Status RestartFromMemory(int64_t update, int64_t on_disk);
  absl::Status TakeUpMemoryCut(const std::vector<int64_t>& alive);
  void GiveUpUnwritten(int64_t until);
  void FillBackups(
      int64_t worker,
      google::protobuf::RepeatedPtrField<v1::SnapshotAddress>& backups) const;
  void FillSources(
      int64_t worker,
      google::protobuf::RepeatedPtrField<v1::SnapshotAddress>& sources) const;

  // run_controller_progress.cc
  void Progress(base::SteadyTime now);
  void OnReports(const v1::StageReports& reports);
  void OnSnapshot(const v1::SnapshotWritten& snapshot);
  void GiveUpCheckpoint(int64_t update, const std::string& reason);
  void WriteRows(base::SteadyTime now);
  void CommitCheckpoints();
  void EndWhenDone();
  void EndAtLastCheckpoint();
  absl::Status TakeRefreshChange(const RefreshChange& change);
  void Grant(base::SteadyTime now);
  int64_t MayGrant() const;
  void GrantUntil(int64_t until);
  v1::CoordinatorMessage GrantMessage(int64_t after, int64_t until) const;
  double SecondsAt(base::SteadyTime now) const;
  void NoteInterruption(base::SteadyTime now);
  double TrainedAt(base::SteadyTime now) const;

  // run_controller_status.cc
  void FillProgress(v1::GetStatusResponse& status, base::SteadyTime now) const;
  void FillRecoveries(v1::GetStatusResponse& status) const;
  const RunStatistics& Reached() const;
  int64_t Reached(int stage) const;
  bool StandsStill(base::SteadyTime now) const;
  void FillStage(int stage, v1::StageView& view) const;
  std::string WorkerState(const Worker& worker) const;

  // run_controller_commands.cc
  absl::StatusOr<v1::CommandResponse> Pause(const std::string& who);
  absl::StatusOr<v1::CommandResponse> Resume(const std::string& who,
                                             base::SteadyTime now);
  absl::StatusOr<v1::CommandResponse> Checkpoint(const std::string& who,
                                                 base::SteadyTime now);
  absl::StatusOr<v1::CommandResponse> Drain(const std::string& who,
                                            base::SteadyTime now);
  absl::StatusOr<v1::CommandResponse> Stop(const std::string& who,
                                           base::SteadyTime now);
  absl::StatusOr<v1::CommandResponse> StopPending(const std::string& who,
                                                  base::SteadyTime now);
  void StopAfter(int64_t until, const std::string& who);
  absl::StatusOr<v1::CommandResponse> Refresh(const v1::CommandRequest& request,
                                              const std::string& who);
  absl::StatusOr<v1::CommandResponse> Trace(int64_t every,
                                            const std::string& who);
  v1::CoordinatorMessage TraceMessage() const;
  void PutTraceInForce(int64_t every, const std::string& who);
  absl::Status RequireTraining(const char* verb) const;
  void PutInForce(StandingOrder order);
  void TakeUpOrder(const std::vector<int64_t>& alive, base::SteadyTime now);

  const RunSetup setup_;
  const worker::ScheduleSpec schedule_;
  const int stages_;
  RunEffects& effects_;

  RunStateMachine machine_;
  WorkerTable table_;
  std::string numerics_;  // as recorded
  std::string links_;     // likewise: what carries tensors between workers
  std::optional<int> exit_code_;
  std::vector<StageInfo> stage_info_;
  std::vector<Recovery> recoveries_;

  // The assignment: slot i hosts the stages that slot_of_stage_ maps to i.
  int64_t generation_ = 0;
  const std::vector<int> slot_of_stage_;
  std::vector<int64_t> slots_;          // worker; 0: vacant
  std::map<int64_t, Hosting> hosting_;  // by worker
  std::set<int64_t> ready_;             // workers that are, of this generation
  std::set<int64_t> finished_;
  std::set<int> broken_edges_;  // and those that are being connected
  bool takes_holdings_ = true;
  std::optional<std::string> must_go_back_;  // why
  bool only_an_edge_ = false;  // the recovery is of no worker known to be lost
  std::optional<int64_t> repeat_after_;  // told to the workers that are kept
  base::SteadyTime alive_since_;  // who was heard of since counts as alive
  base::SteadyTime waits_since_;  // this recovery
  std::optional<base::SteadyTime> missing_since_;  // the newest checkpoint
  bool counted_restart_ = true;                    // of this recovery
  bool of_loss_ = true;  // and it has an entry in recoveries_
  std::optional<base::SteadyTime> ticked_;

  // Progress under this generation.
  VersionLedger ledger_;
  Guards guards_;
  bool void_rows_ = false;  // further ones are not of this run
  RunStatistics statistics_;
  // Of the rows up to the last one of the coordinator's earlier lives, as long
  // as the stages are expected to get there again without going back.
  std::optional<RunStatistics> reached_before_;
  SnapshotCollector snapshots_;
  std::vector<CheckpointContent> whole_;  // not committed yet
  std::map<int64_t, std::string> given_up_;
  std::optional<int64_t> committed_;  // on disk
  int64_t start_ = 0;

  // Snapshots in the workers' memories.
  MemoryCuts memory_;
  bool keeping_fails_ = false;          // as was recorded
  std::vector<MetricsRow> rows_found_;  // of the coordinator's earlier lives
  Origin origin_;                       // of the stages that were started last
  int64_t since_ = 0;                   // generation of the last going back

  const bool rotates_;  // the optimizer has bases
  RefreshScheduler refresh_;

  // Grants.
  GrantWindow window_;
  int64_t until_ = 0;
  int64_t limit_;  // no grant goes beyond it: a pause, a stop, the end
  int64_t final_;
  std::optional<int64_t> stop_at_;
  std::optional<base::SteadyTime> stop_deadline_;  // of its checkpoint
  std::optional<std::string> stop_asked_;          // while PENDING; by whom
  bool had_a_life_ = false;  // under an earlier coordinator
  std::set<int64_t> requested_snapshots_;
  StandingOrder order_;
  // A stage that was lost together with an earlier coordinator may have begun
  // with updates before this one, and others have what came of it.
  int64_t refreshable_ = 1;

  int64_t trace_every_;  // of so many updates one is traced; 0: none

  // Last row, or last change of state.
  base::SteadyTime progressed_;
  v1::RunState ticked_state_ = v1::RUN_STATE_UNSPECIFIED;

  // Training time.
  std::optional<base::SteadyTime> started_;
  double seconds_before_ = 0;
  double interrupted_seconds_ = 0;           // of it, up to the last one's end
  std::optional<double> interrupted_since_;  // now, on the same clock
};

}  // namespace gimbal::coordinator
