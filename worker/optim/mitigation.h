// What a stage does about its delay, on top of its optimizer. Combinable; each
// of them leaves a stage of delay 0 as it is, so that delay 0 is the plain
// optimizer bit for bit. Pure.
//
//   name                    rule
//   lr_discount             lr / delay^(1 - min(t / T, 1))   (PipeDream-LR;
//                           PipeMare T1, Yang et al., MLSys 2021)
//   lr_linear               lr max(1 - slope delay, floor), times matrix_factor
//                           on matrices
//   beta1_by_delay          b1 = 0.9 + 0.1 exp(-delay / 20)
//   weight_prediction       forward and backward at the weights `delay` updates
//                           ahead (SpecTrain, Chen et al., 2018; optimizer.h)
//   delay_compensation      DC-ASGD (Zheng et al., ICML 2017)
//   error_feedback          with u the optimizer's update: w + 2 u - u_previous
//                           (Zmushko et al., arXiv 2606.30634)
//   discrepancy_correction  backward at w - delay d, d an average of the
//                           weights' change (PipeMare T2), without a stash
//   periodic_sync           in worker/pipeline/schedule.h
#pragma once

#include <cstdint>

namespace gimbal::worker {

struct MitigationSpec {
  int64_t lr_discount_updates = 0;  // T; 0: off

  bool lr_linear = false;
  double lr_slope = 0.03;
  double lr_floor = 0.05;
  double lr_matrix_factor = 1;

  bool beta1_by_delay = false;
  bool weight_prediction = false;

  double compensation = 0;  // lambda; 0: off
  bool compensation_adaptive = false;
  bool compensation_rotated = false;  // of rotated matrices, in their space

  bool error_feedback = false;
  double discrepancy_decay = 0;  // D of d's decay D^(1/delay); 0: off
};

struct StageLr {
  double lr = 0;
  double matrix_factor = 1;
};

// Learning rate of a stage at update t, where `lr` is that of the schedule.
StageLr LrOfStage(const MitigationSpec& spec, int64_t delay, int64_t update,
                  double lr);

double Beta1OfStage(const MitigationSpec& spec, int64_t delay, double beta1);

}  // namespace gimbal::worker
