// Fused softmax and cross-entropy (natural logarithm): loss of a row =
// log(sum_j exp(x_j)) - x_target.
//
// Shapes: logits [rows, vocab]; targets, lse [rows]. Target ids are in
// [0, vocab).
#pragma once

#include <cstdint>

namespace gimbal::compute {

template <typename T>
struct CrossEntropy {
  // Returns the sum of the rows' losses, added up in row order, and writes each
  // row's log-sum-exp.
  double (*forward)(int64_t rows, int64_t vocab, const T* logits,
                    const int32_t* targets, T* lse);
  // Replaces the logits by the gradient of scale * sum of losses.
  void (*backward)(int64_t rows, int64_t vocab, const int32_t* targets,
                   const T* lse, T scale, T* logits_to_gradient);
};

}  // namespace gimbal::compute
