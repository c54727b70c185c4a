// One stage's update rule: learning rate schedule, clipping, optimizer and what
// the stage does about its delay. Turns a gradient into the next version of the
// weights.
//
//   StageUpdate update(spec, table);
//   update.Apply({.update = t, .square_sum = s, .old_weights = w, ...});
//
// Not thread-safe. Apply allocates nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/compute/aligned_buffer.h"
#include "worker/optim/lr_schedule.h"
#include "worker/optim/mitigation.h"
#include "worker/optim/optimizer.h"

namespace gimbal::worker {

struct StageUpdateSpec {
  OptimizerSpec optimizer;
  LrSpec lr;
  double clip = 0;  // limit of the gradient's norm; 0: none
  MitigationSpec mitigation;
  int64_t delay = 0;  // of the stage
};

// What a stage's update rule needs beside old and new weights.
struct StageUpdateNeeds {
  explicit StageUpdateNeeds(const StageUpdateSpec& spec);

  // Weights for forwards are predicted: the stage keeps the newest beside them.
  bool prediction = false;
  // The old weights, after the new ones are written.
  bool old_weights = false;
  // The weights the gradient belongs to.
  bool compensation = false;
  // Backward uses weights corrected by FillBackwardWeights.
  bool correction = false;
};

// Arenas of the table.
struct UpdateInput {
  int64_t update = 0;  // t, 1-based
  // Squared norm that clipping looks at: of the stage, or of all stages.
  double square_sum = 0;
  bool refresh = false;
  const float* old_weights = nullptr;
  float* new_weights = nullptr;  // may be old_weights unless they are needed
  float* grads = nullptr;        // used up
  // Weights that the gradient belongs to, with delay compensation; may be
  // new_weights.
  const float* then = nullptr;
  // With prediction: gets the weights for the forwards to come.
  float* predicted = nullptr;
};

class StageUpdate {
 public:
  // `table` must outlive it.
  StageUpdate(const StageUpdateSpec& spec, const ParameterTable& table);

  void Apply(const UpdateInput& input);

  const StageUpdateNeeds& needs() const { return needs_; }
  // Corrected weights for backward, after each update and after a restart.
  void FillBackwardWeights(const float* newest, float* out) const;

  // As Optimizer's, the mitigations' own state included.
  std::vector<StateTensor<float>> State() const;
  Optimizer<float>::Bytes bytes() const;
  static Optimizer<float>::Bytes Count(const StageUpdateSpec& spec,
                                       const ParameterTable& table);
  const Optimizer<float>& optimizer() const { return optimizer_; }

 private:
  void AddState(const char* suffix, float* arena,
                std::vector<StateTensor<float>>* state) const;
  void CompensateInPlace(const UpdateInput& input, double scale);
  void Predict(const UpdateInput& input, const StageLr& lr);

  const StageUpdateSpec spec_;
  const StageUpdateNeeds needs_;
  const ParameterTable& table_;
  Optimizer<float> optimizer_;
  compute::AlignedBuffer<float> memory_;
  // Arenas in it; null when not used.
  float* previous_ = nullptr;     // error feedback: last update
  float* velocity_ = nullptr;     // discrepancy correction: d
  float* mean_square_ = nullptr;  // adaptive compensation
  std::vector<double> lrs_ahead_;
};

}  // namespace gimbal::worker
