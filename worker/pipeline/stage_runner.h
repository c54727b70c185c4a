// Runs the program of one stage, one action at a time, and never waits: an
// action whose input is not there yet is left for later. The executor decides
// when to ask again.
//
// The numbers depend on the program alone, not on when or beside which other
// stages its actions run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/trace/recorder.h"
#include "worker/data/batch_sampler.h"
#include "worker/pipeline/grants.h"
#include "worker/pipeline/stage_state.h"
#include "worker/transport/link.h"

namespace gimbal::worker {

struct StageOptions {
  StageStateSpec spec;
  EngineFactory engine = MakeCpuEngine;
  int eval_batches = 0;
  // Read by the first and the last stage; null elsewhere. `valid` may be null,
  // then no evaluation must be granted.
  const BatchSampler* train = nullptr;
  const BatchSampler* valid = nullptr;
  // Fault injection for tests: the gradient of this update is NaN.
  int64_t poisoned_update = 0;
  // Likewise, of schedules: forward and backward of a microbatch last so long
  // together, at a ratio of 1 to 2; 0: as long as they take.
  double microbatch_seconds = 0;
  std::shared_ptr<trace::Recorder> recorder;  // null: no spans are recorded
};

struct UpdateReport {
  int stage = 0;
  int64_t update = 0;
  int64_t staleness = 0;
  int64_t staleness_expected = 0;
  double gradient_square_sum = 0;
  std::optional<double> loss;        // last stage
  std::optional<BasisHealth> basis;  // of the last refresh
  bool weights_finite = true;
};

// What a stage tells the world, on the executor's thread.
struct StageEvents {
  std::function<void(const UpdateReport&)> updated;
  std::function<void(int64_t update, double loss)> evaluated;
  // Copies the stage's state for a checkpoint; false while the last one is
  // still being written.
  std::function<bool(int stage, int64_t update, const StageState&)> snapshot;
  // The same for one that is kept in memory; false while the last one is still
  // being sent.
  std::function<bool(int stage, int64_t update, const StageState&)> keep;
};

// Seconds by phase since the runner was made; as v1::StageTimes.
struct PhaseTimes {
  double forward = 0, backward = 0, update = 0, rotate = 0, refresh = 0,
         send = 0, recv = 0, evaluate = 0, checkpoint = 0;
  double busy() const {
    return forward + backward + update + rotate + refresh + send + recv +
           evaluate + checkpoint;
  }
};

struct RunnerStatus {
  int64_t weight_version = 0;
  std::string activity;  // "forward 12", "waits for forward 13 from stage 0"
  PhaseTimes times;
  double seconds = 0;  // since the runner was made
  int64_t refreshes = 0;
  int64_t microbatches = 0;  // backwards done
  // To the stage after and before, headers included.
  int64_t bytes_sent_downstream = 0, bytes_sent_upstream = 0;
  int64_t memory_bytes = 0;
  int64_t stash_bytes = 0;
  int64_t stash_versions = 0;
};

class StageRunner {
 public:
  enum class Progress { kRan, kBlocked, kFinished };

  StageRunner(const StageOptions& options, StageEvents events);

  int index() const { return options_.spec.index; }
  // To be filled before Start: the state of the cut.
  StageState& state() { return state_; }
  // Links to the stage before and after; null at the ends. They must outlive
  // the runner's last Step.
  void Connect(Link* up, Link* down);
  // The stage's state is that right after update `start`.
  void Start(int64_t start);

  // Tries the next action of the program, of an evaluation the next microbatch
  // alone: it may be long, and between two steps it can be given up. Errors:
  // that of a link, DATA_LOSS for samples or a staleness that are not what they
  // must be.
  absl::StatusOr<Progress> Step(const Grants& grants);

  // Thread-safe.
  RunnerStatus status() const;

 private:
  // What a slot holds between a forward and its backward.
  struct InFlight {
    int64_t microbatch = -1;
    int64_t version = -1;
    uint64_t samples = 0;
    bool restored = false;  // its forward ran before a restart
  };

  bool NextBlock(const Grants& grants);
  const ScheduleSpec& schedule() const { return options_.spec.schedule; }
  bool first() const { return options_.spec.stage.first; }
  bool last() const { return options_.spec.stage.last; }
  absl::StatusOr<bool> Run(const Action& action);
  absl::StatusOr<bool> RunAny(const Action& action);
  // Where an action's time counts, and as what it is recorded.
  struct Phase {
    double PhaseTimes::*seconds;
    trace::SpanKind span;
  };
  static Phase PhaseOf(ActionKind kind);
  int64_t UpdateOf(const Action& action) const;
  absl::StatusOr<bool> RunForward(const Action& action);
  absl::StatusOr<bool> RunBackward(const Action& action);
  absl::StatusOr<bool> RunNorm(int64_t update);
  absl::StatusOr<bool> RunUpdate(int64_t update);
  absl::StatusOr<bool> RunEvaluate(int64_t update);
  absl::StatusOr<bool> RunSnapshot(int64_t update);
  absl::StatusOr<bool> RunKeep(int64_t update);
  void NoteInFlight();

  // Input of a forward: tokens, or the message of the stage before; targets at
  // the last stage. Nothing when it has not arrived.
  struct Input {
    EngineInput tensors;
    uint64_t samples = 0;
    std::optional<Message> message;
  };
  absl::StatusOr<std::optional<Input>> TakeInput(MessageKind kind,
                                                 const BatchSampler* data,
                                                 int64_t microbatch,
                                                 int64_t index, int part);
  // A message with room for a boundary tensor.
  static Message NewTensor(Link* link, MessageKind kind, int64_t index,
                           uint64_t samples);
  void SendOutput(MessageKind kind, int slot, uint64_t samples, int64_t index,
                  int part);
  // `begin`: when the message's payload began to be copied.
  void Send(Link* link, Message message, base::SteadyTime begin);
  std::optional<Message> Take(Link* link, MessageKind kind, int64_t index,
                              int part = 0);
  // Seconds of the running action that belong to another phase.
  void CountApart(double PhaseTimes::*phase, double seconds);
  void RecordBases(base::SteadyTime begin, const BasisSeconds& spent,
                   int64_t update);
  void RecordTransfer(trace::SpanKind kind, const MessageHeader& header,
                      const Link& link, base::SteadyTime begin,
                      base::SteadyTime end);
  void SendNorm(Link* link, MessageKind kind, int64_t update, double sum);
  std::optional<double> TakeNorm(Link* link, MessageKind kind, int64_t update);

  int SlotOf(int64_t microbatch) const {
    return static_cast<int>(microbatch %
                            static_cast<int64_t>(in_flight_.size()));
  }
  // Bytes of a boundary tensor.

  // Waits until a computation that began at `begin` has taken this share of
  // microbatch_seconds.
  void Stretch(base::SteadyTime begin, double share) const;
  // Says what the stage waits for, and returns the link's error if it has one.
  absl::StatusOr<bool> Blocked(const Link* link, const std::string& what);
  void SetActivity(std::string activity);

  const StageOptions options_;
  const StageEvents events_;
  StageState state_;
  StageEngine& engine_;              // of the state
  std::vector<InFlight> in_flight_;  // by slot
  float* grads_ = nullptr;           // an arena of the engine
  std::vector<int32_t> tokens_, targets_;
  Link* up_ = nullptr;
  Link* down_ = nullptr;

  int64_t start_ = 0;
  std::vector<Action> program_;  // of the current block
  size_t position_ = 0;
  // The block's update:
  bool refreshes_ = false;
  bool left_out_ = false;

  // Of the minibatch whose backwards are running.
  double loss_sum_ = 0;
  int64_t staleness_ = 0;
  std::vector<double> layer_squares_;
  std::optional<double> norm_part_;  // sent upstream, total awaited
  double norm_total_ = 0;
  // Of the evaluation that is running.
  int eval_part_ = 0;
  double eval_loss_sum_ = 0;

  // Of the running action: see CountApart, and whether its spans are recorded.
  double apart_ = 0;
  bool recording_ = false;
  base::SteadyTime done_;  // with the action before

  const base::SteadyTime made_;
  int64_t memory_bytes_ = 0;
  mutable std::mutex status_mutex_;
  RunnerStatus status_;
};

}  // namespace gimbal::worker
