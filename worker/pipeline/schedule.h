// Pipeline schedules: which operations a stage runs, in which order, with which
// version of its weights. Pure functions of the spec: no threads, no clock, no
// I/O. The executor runs the lists, the simulator and the planner count them.
//
// Stages are numbered 0 (takes tokens) to P-1 (computes the loss). Updates are
// numbered from 1, microbatches from 0: microbatch j belongs to update
// j / a + 1, where a is `accumulate`. Weight version v is the weights after
// update v; version 0 is the initial weights. A stage's program is cut into
// blocks: block t ends with update t and what follows it at that cut.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gimbal::worker {

enum class ScheduleKind {
  kAsync1F1B,  // PipeDream: no flush; delay of stage s is ceil((P-1-s) / a)
  k1F1B,       // flush after every update; delay 0
  kGPipe,      // all forwards, all backwards, one update; delay 0
  k2BW,        // PipeDream-2BW: no flush, two versions; delay 1 everywhere
};

struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::kAsync1F1B;
  int stages = 1;      // P
  int accumulate = 1;  // a; 2BW needs a >= P
  // Synchronous schedules clip by the norm over all stages, which takes one
  // exchange along the pipeline before each update.
  bool global_norm = false;
  // Backward uses the version its forward used (PipeDream). Without, it uses
  // the newest one with the activations of the old one (PipeMare), and a stage
  // keeps one version. Async1F1B only.
  bool stash = true;
  // Drain the pipeline every so many updates, so that every stage starts again
  // from one version (`periodic_sync`); 0: never. Async1F1B only.
  int64_t sync_every = 0;
  // Update after which the run went over to these stages. The pipeline was
  // empty then, and no version before it is ever asked for. 0: it began so.
  int64_t origin = 0;
};

enum class ActionKind {
  kForward,   // index: microbatch
  kBackward,  // index: microbatch
  kNorm,      // index: update. Sum the gradient's squares over all stages
  kUpdate,    // index: update
  kEvaluate,  // index: update. Forward of the held-out batches
  kSnapshot,  // index: update. Copy the stage's state for a checkpoint
  kKeep,      // index: update. Copy it to be kept in memory
};

struct Action {
  ActionKind kind = ActionKind::kForward;
  int64_t index = 0;
  // Weight version that the forward uses.
  int64_t version = 0;

  friend bool operator==(const Action&, const Action&) = default;
};

std::string ToString(const Action& action);

// What happens at the cut after one update, in this order.
struct CutActions {
  bool evaluate = false;
  bool snapshot = false;
  bool keep = false;
};

// The actions of stage `stage` in block `update` of a run that (re)starts from
// the cut after update `start` and feeds no microbatch beyond update `end`.
// The first block, start + 1, begins with the warm-up: the forwards that are in
// flight at the cut, with the versions they had when they first ran. So a run
// that starts again at a cut computes what it would have computed anyway.
// Requires origin <= start < update <= end.
std::vector<Action> BlockActions(const ScheduleSpec& spec, int stage,
                                 int64_t update, int64_t start, int64_t end,
                                 CutActions cut);

// Number of forwards that stage s runs ahead of its backward: P-1-s when
// asynchronous.
int WarmupForwards(const ScheduleSpec& spec, int stage);

// Version of the weights that microbatch j meets at the stage.
int64_t ForwardVersion(const ScheduleSpec& spec, int stage, int64_t microbatch);

// Delay in updates: the largest (newest - used) version difference over the
// microbatches of one update, from update Delay + 1 on.
int64_t Delay(const ScheduleSpec& spec, int stage);

// Staleness that update t must show: min(Delay, updates since the pipeline was
// last empty).
int64_t ExpectedStaleness(const ScheduleSpec& spec, int stage, int64_t update);

// Oldest version that must still exist right after update t, so that everything
// in flight can be finished (or run again from this cut). Without a stash that
// is the newest one.
int64_t OldestVersionNeeded(const ScheduleSpec& spec, int stage,
                            int64_t update);

// Microbatches that are between their forward and their backward at the stage
// right after update t: [first, end). `fed_updates`: the last update that is
// fed.
struct MicrobatchRange {
  int64_t first = 0;
  int64_t end = 0;
};
MicrobatchRange InFlightAfter(const ScheduleSpec& spec, int stage,
                              int64_t update, int64_t fed_updates);

// Weight copies the stage holds: Delay + 1, or 1 without a stash.
int WeightVersions(const ScheduleSpec& spec, int stage);

// Activation slots: microbatches between forward and backward at one time.
int ActivationSlots(const ScheduleSpec& spec, int stage);

}  // namespace gimbal::worker
