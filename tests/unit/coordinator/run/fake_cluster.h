// A run controller with effects in memory and workers that do what they are
// told, step by step under the test's control. Losses and gradients are a pure
// function of the update, as those of real stages are.
//
// The cluster checks the controller's promises as it goes: grants only grow
// within a generation, what a cut asks for is always new, every stage has one
// owner, rows are 1, 2, 3, ..., nothing is committed beyond them, a stage that
// starts from a cut in memory is sent to workers that have it, a grant leaves
// the refresh rules of what was granted before as they are, and an update that
// is made again is made under the same rule.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/run/run_controller.h"
#include "tests/unit/coordinator/run/fake_effects.h"
#include "worker/pipeline/specs.h"

namespace gimbal::coordinator {

struct FakeWorker {
  int64_t generation = 0;
  std::map<int, int64_t> versions;  // by hosted stage
  std::map<int64_t, v1::Cut> cuts;
  std::map<int, std::vector<worker::RefreshRule>> refresh;  // by stage
  std::set<int64_t> left_out;                               // updates
  int64_t until = 0;
  int64_t final_update = 0;
  int64_t start = 0;
  std::vector<v1::SnapshotWritten> unwritten;
  v1::StageReports gathered;
  std::vector<v1::WorkerMessage> said;  // of updates
  std::vector<v1::WorkerMessage> owed;  // to be said again
  bool loaded = false;                  // was ready once
  int64_t committed = 0;
  int64_t answered = 0;       // probe
  int64_t trace_every = -1;   // as told; -1: nothing was
  std::string trace_failure;  // why it cannot
  std::vector<int> rewired;   // edges, last time
  int64_t assigned = 0;       // generation
  int64_t logs_from = 0;      // update: what it sent before is forgotten
  bool fresh = true;          // registered, and given nothing since
  int64_t since = 0;
  int64_t backup = 0;
  // By stage and update, the generation of the copy.
  std::map<std::pair<int, int64_t>, int64_t> kept;
  std::vector<std::pair<int, int64_t>> unsent;  // of these
  std::set<std::pair<int, int64_t>> counted;    // and sent again
  bool ready = false;
  bool finished = false;
  std::optional<int> exit_code;
};

class FakeCluster {
 public:
  FakeCluster(int stages, int workers);
  explicit FakeCluster(RunSetup setup);

  // Registers a worker and opens its session; its id.
  int64_t Join(const std::string& name = "w");
  // The coordinator is killed and started again, and all workers find it.
  void Revive();
  // The stream of the worker breaks.
  void Kill(int64_t worker);
  // One message of the worker; its status.
  absl::Status Say(int64_t worker, v1::WorkerMessage message);
  void Heartbeat(int64_t worker);
  void Ready(int64_t worker);
  // The stage makes its next update, if it may. False when it may not.
  bool Step(int stage);
  // The oldest snapshot of the worker is written.
  bool WriteSnapshot(int64_t worker);
  void FinishIfDone(int64_t worker);
  // The oldest copy that the worker has taken reaches its backup.
  bool SendCopy(int64_t worker);
  void SendCopies();  // all of them
  // Everybody does all they may, until nothing changes.
  void RunAll();
  // Time passes, with a tick at least every half second.
  void Advance(double seconds);
  // Time passes while nobody does anything: the whole job was stopped.
  void Freeze(double seconds);
  absl::StatusOr<v1::CommandResponse> Command(v1::CommandRequest::Verb verb);
  absl::StatusOr<v1::CommandResponse> Command(v1::CommandRequest request);

  // The worker that hosts the stage; 0: none.
  int64_t OwnerOf(int stage) const;
  int stages() const { return stages_; }

  base::SteadyTime now{std::chrono::seconds(1000)};
  FakeEffects effects;
  std::unique_ptr<RunController> run;
  std::map<int64_t, FakeWorker> workers;
  // What the stage's gradient is at this update, unless it is left out, and
  // what the loss is.
  std::map<std::pair<int, int64_t>, double> bad_gradients;
  std::map<int64_t, double> bad_losses;
  // What they are told waits, and is lost when the coordinator dies first.
  std::set<int64_t> deaf;
  // Updates at which a stage refreshed its bases, repeated work included.
  std::map<int, std::set<int64_t>> refreshes;
  // The refresh period under which a stage made an update, the last time.
  std::map<std::pair<int, int64_t>, double> periods;
  // Reports are gathered until the worker has something else to say, or sends
  // them.
  bool gathers = false;
  bool SendReports(int64_t worker);
  // What a stage's basis measures in this update; it depends on the numbers of
  // the run, so on what is left out of it.
  static double RatioOf(int stage, int64_t update,
                        const std::set<int64_t>& left_out);

 private:
  void Deliver();
  void Handle(FakeWorker& worker, const v1::CoordinatorMessage& message);
  void Assign(FakeWorker& worker, int64_t generation,
              const v1::Assignment& assignment);
  void SendAgain(FakeWorker& worker);
  void TakeFromMemory(FakeWorker& worker, int stage,
                      const v1::Assignment& assignment);
  bool SayItCannotReplay(int64_t worker);
  void CheckOwners(const v1::Assignment& assignment) const;
  void CheckRules(const FakeWorker& worker, const v1::Grant& grant) const;
  void MakeUnderRule(int stage, int64_t update, const FakeWorker& worker);

  const RunSetup setup_;
  const int stages_;
  worker::ScheduleSpec schedule_;
  std::map<int64_t, int> assigned_;       // stages, by generation
  std::map<int64_t, int64_t> went_back_;  // generation -> update
  std::set<int64_t> left_out_;            // when `periods` were noted last
};

}  // namespace gimbal::coordinator
