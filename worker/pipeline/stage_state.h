// Everything of a stage that a checkpoint holds: parameters by version and the
// state of the update rule. What is in flight is computed again after a
// restart, unless nothing is stashed: then its weights are gone, and its
// activations are part of the state.
//
// The numbers lie in the engine's memory (stage_engine.h): pointers that are
// given out are names for it. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "worker/model/parameter_table.h"
#include "worker/optim/stage_update.h"
#include "worker/pipeline/cpu_engine.h"
#include "worker/pipeline/schedule.h"
#include "worker/pipeline/stage_engine.h"
#include "worker/pipeline/weight_stash.h"

namespace gimbal::worker {

struct StageStateSpec {
  StageSpec stage;
  ScheduleSpec schedule;
  int index = 0;
  // `delay` is set from the schedule.
  StageUpdateSpec update;
  compute::WireFormat wire = compute::WireFormat::kFp32;
};

class StageState {
 public:
  explicit StageState(const StageStateSpec& spec,
                      const EngineFactory& make_engine = MakeCpuEngine);

  // Bytes that a state of this spec holds.
  struct Bytes {
    int64_t weights = 0;  // all arenas of them
    int weight_arenas = 0;
    int64_t optimizer = 0;  // the update rule, scratch included
    int64_t offloaded = 0;  // of its state, on the host instead
    int64_t snapshot = 0;   // a copy for a checkpoint, activations not counted
  };
  static Bytes Count(const StageStateSpec& spec);

  const StageStateSpec& spec() const { return spec_; }
  const ParameterTable& table() const { return table_; }
  StageEngine& engine() { return *engine_; }
  const StageEngine& engine() const { return *engine_; }
  // What forwards use, by version.
  WeightStash& stash() { return stash_; }
  const WeightStash& stash() const { return stash_; }

  // Fills version 0.
  void Initialize(uint64_t seed, double init_std);
  // The state of the cut after `update` has been read into newest(), stash()
  // and the engine's State().
  void Restored();

  // The newest weights, without prediction: what is trained and saved.
  const float* newest() const;
  // To be filled when a state is read; `update` is its version.
  float* newest_to_fill(int64_t update);
  bool predicts() const { return needs_.prediction; }

  const float* ForwardWeights(int64_t version) const;
  // `version`: of the forward.
  const float* BackwardWeights(int64_t version) const;

  // Applies update t. `staleness` is that of the gradient; `grads` is used up.
  void Advance(int64_t update, int64_t staleness, double square_sum,
               bool refresh, float* grads);

  // Update t without effect: the weights of t-1 are those of t, and nothing
  // else changes.
  void LeaveOut(int64_t update);
  bool weights_finite() const;

  // Memory of the activations in flight, when nothing is stashed; views that
  // the stage's runner sets. microbatch -1: nothing in flight.
  struct InFlight {
    int64_t microbatch = -1;
    std::span<float> values;
  };
  std::vector<InFlight> in_flight;

 private:
  const StageStateSpec spec_;
  const ParameterTable table_;
  const StageUpdateNeeds needs_;
  const std::unique_ptr<StageEngine> engine_;
  WeightStash stash_;
  float* newest_ = nullptr;    // with prediction
  float* backward_ = nullptr;  // with discrepancy correction
};

}  // namespace gimbal::worker
