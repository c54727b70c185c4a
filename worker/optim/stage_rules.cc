#include "worker/optim/stage_rules.h"

#include <algorithm>

#include "worker/optim/basis_rotation.h"

namespace gimbal::worker {

OptimizerSpec SpecOfStage(const StageUpdateSpec& spec) {
  OptimizerSpec optimizer = spec.optimizer;
  optimizer.beta1 = Beta1OfStage(spec.mitigation, spec.delay, optimizer.beta1);
  return optimizer;
}

bool FeedsBack(const StageUpdateSpec& spec) {
  return spec.delay > 0 && spec.mitigation.error_feedback;
}

bool AveragesSquares(const StageUpdateSpec& spec) {
  return spec.delay > 0 && spec.mitigation.compensation > 0 &&
         spec.mitigation.compensation_adaptive;
}

bool CompensatesRotated(const StageUpdateSpec& spec, const Param& param) {
  return spec.mitigation.compensation_rotated &&
         spec.optimizer.kind == OptimizerKind::kBasisRotation &&
         SidesToRotate(spec.optimizer.rotation, param).any();
}

double LrAhead(const StageUpdateSpec& spec, int64_t update, int64_t ahead) {
  const int64_t then = std::min(update + ahead, spec.lr.steps);
  return LrOfStage(spec.mitigation, spec.delay, then,
                   LearningRate(spec.lr, then))
      .lr;
}

}  // namespace gimbal::worker
