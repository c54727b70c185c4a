// The methods that every test of a kind runs over: optimizers, and mitigations
// of staleness with the schedule they need.
#pragma once

#include <cctype>
#include <string>
#include <vector>

#include "worker/optim/mitigation.h"
#include "worker/optim/optimizer.h"
#include "worker/pipeline/schedule.h"

namespace gimbal::test_support {

struct NamedOptimizer {
  std::string name;  // letters and digits
  worker::OptimizerSpec spec;
};

inline std::vector<NamedOptimizer> AllOptimizers() {
  using namespace worker;  // NOLINT: a table of that namespace's values
  using Kind = OptimizerKind;
  const auto rotation = [](RotationSpec spec, bool nesterov = false) {
    return OptimizerSpec{
        .kind = Kind::kBasisRotation, .nesterov = nesterov, .rotation = spec};
  };
  constexpr auto kFirst = RotationSource::kFirst;
  constexpr auto kUnilateral = RotationGeometry::kUnilateral;
  return {
      {"AdamW", {.kind = Kind::kAdamW}},
      {"NAdamW", {.kind = Kind::kAdamW, .nesterov = true, .beta1 = 0.99}},
      {"AdamWReset", {.kind = Kind::kAdamW, .moment_reset = 4}},
      {"Sgd", {.kind = Kind::kSgd}},
      {"SgdNesterov", {.kind = Kind::kSgd, .nesterov = true}},
      {"Muon", {.kind = Kind::kMuon}},
      {"MuonNesterov", {.kind = Kind::kMuon, .nesterov = true}},
      {"Rotation", rotation({})},
      {"RotationNesterov", rotation({}, true)},
      {"RotationUnilateral", rotation({.geometry = kUnilateral})},
      {"RotationFirst", rotation({.source = kFirst})},
      {"RotationFirstUnilateral",
       rotation({.source = kFirst, .geometry = kUnilateral})},
      {"RotationMaxDim", rotation({.max_dim = 8})},
      {"RotationEmbeddings", rotation({.embeddings = true})},
      {"RotationTransport", rotation({.transport = MomentTransport::kRotate})},
      {"RotationFirstTransport",
       rotation({.source = kFirst, .transport = MomentTransport::kRotate})},
      {"RotationHalf", rotation({.half_basis = true})},
      {"RotationReset", {.kind = Kind::kBasisRotation, .moment_reset = 6}},
  };
}

struct NamedMitigation {
  std::string name;
  worker::OptimizerSpec optimizer;
  worker::MitigationSpec spec;
  bool stash = true;
  int64_t sync_every = 0;
};

inline std::vector<NamedMitigation> AllMitigations() {
  using namespace worker;  // NOLINT: a table of that namespace's values
  const OptimizerSpec adamw{.kind = OptimizerKind::kAdamW};
  const OptimizerSpec rotation{.kind = OptimizerKind::kBasisRotation};
  const OptimizerSpec look_ahead{.kind = OptimizerKind::kBasisRotation,
                                 .nesterov = true};
  const OptimizerSpec muon{.kind = OptimizerKind::kMuon};
  const OptimizerSpec sgd{.kind = OptimizerKind::kSgd};
  return {
      {"LrDiscount", adamw, {.lr_discount_updates = 6}},
      {"LrLinear", rotation, {.lr_linear = true, .lr_matrix_factor = 1.5}},
      {"Beta1ByDelay", adamw, {.beta1_by_delay = true}},
      {"PredictionAdamW", adamw, {.weight_prediction = true}},
      {"PredictionRotation", rotation, {.weight_prediction = true}},
      {"PredictionMuon", muon, {.weight_prediction = true}},
      {"PredictionSgd", sgd, {.weight_prediction = true}},
      {"Compensation", adamw, {.compensation = 0.5}},
      {"CompensationAdaptive",
       adamw,
       {.compensation = 0.5, .compensation_adaptive = true}},
      {"CompensationRotated",
       rotation,
       {.compensation = 0.5, .compensation_rotated = true}},
      {"CompensationRotatedAdaptive",
       rotation,
       {.compensation = 0.5,
        .compensation_adaptive = true,
        .compensation_rotated = true}},
      {"ErrorFeedback", rotation, {.error_feedback = true}},
      {"ErrorFeedbackMuon", muon, {.error_feedback = true}},
      {"NoStash", rotation, {}, false},
      {"NoStashErrorFeedback", adamw, {.error_feedback = true}, false},
      {"DiscrepancyCorrection", adamw, {.discrepancy_decay = 0.135}, false},
      {"PeriodicSync", rotation, {}, true, 5},
      {"PeriodicSyncNoStash", adamw, {}, false, 5},
      {"Best", look_ahead, {.lr_linear = true, .error_feedback = true}},
  };
}

}  // namespace gimbal::test_support
