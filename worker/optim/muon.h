// Muon (Jordan et al., 2024) on one matrix W [m, n]:
//   M <- b M + G;  X = M, or G + b M when the spec says nesterov
//   O = X orthogonalised by Newton-Schulz steps on X / ||X||_F:
//       X <- a X + (b A + c A^2) X, A = X X^T (on X^T when m > n)
//   W <- W (1 - lr wd) - lr 0.2 sqrt(max(m, n)) O
// The factor gives an update the size of AdamW's, so AdamW's lr can be kept.
// State: .m. The last orthogonalised update is kept for the prediction, which
// extrapolates from it (raw momentum is worse than no prediction).
//
// FLOP per update, k the smaller side, l the larger: steps (3 l k^2 + 2 k^3).
#pragma once

#include <vector>

#include "worker/compute/aligned_buffer.h"
#include "worker/optim/optimizer.h"

namespace gimbal::worker {

template <typename T>
class Muon : public ParameterRule<T> {
 public:
  // As AdamW's.
  Muon(const Param& param, const OptimizerSpec& spec,
       compute::Carver<T>& memory);

  void Step(const StepContext<T>& context, const T* old_weights, const T* grads,
            T* new_weights, const OptimizerScratch<T>& scratch) override;
  void Predict(const PredictContext& context, const T* weights, T* predicted,
               const OptimizerScratch<T>& scratch) override;
  std::vector<StateTensor<T>> State() const override;
  ScratchSize scratch_size() const override;

 private:
  double Scale() const;

  const Param& param_;
  const OptimizerSpec& spec_;
  T* const m_;
  T* const o_;
};

// Coefficients of the quintic, from the released code.
inline constexpr double kNewtonSchulzA = 3.4445;
inline constexpr double kNewtonSchulzB = -4.7750;
inline constexpr double kNewtonSchulzC = 2.0315;

// Elements of scratch for NewtonSchulz.
int64_t NewtonSchulzScratch(int64_t rows, int64_t cols);

// x [rows, cols] becomes nearly orthogonal: its singular values come close to
// 1 (between about 0.7 and 1.2 after five steps), its singular vectors stay. A
// zero or non-finite x becomes zero.
template <typename T>
void NewtonSchulz(int64_t rows, int64_t cols, int steps, T* x,
                  std::span<T> scratch);

}  // namespace gimbal::worker
