// Elementwise kernels of the optimizers: one pass over memory each.
//
//   compute::Kernels<OptimKernels<float>>().adamw(n, rule, ...);
//
// `old_weights` and `new_weights` may be the same array or disjoint ones; the
// numbers are the same bit for bit. All other arrays are disjoint.
// Thread-safe for disjoint outputs.
#pragma once

#include <cstdint>

namespace gimbal::worker {

// Coefficients of the moments, shared by `adamw` and `rotated_direction`.
struct MomentRule {
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
};

struct AdamWRule {
  MomentRule moments;
  double grad_scale = 1;
  double keep = 1;             // 1 - lr wd
  double step = 0;             // lr / (1 - b1^t)
  double root_correction = 1;  // sqrt(1 - b2^t)
};

template <typename T>
struct OptimKernels {
  // As torch.optim.AdamW, with g the scaled gradient:
  //   m <- b1 m + (1-b1) g;  v <- b2 v + (1-b2) g^2
  //   w <- keep w - step m / (sqrt(v) / root_correction + eps)
  void (*adamw)(int64_t n, const AdamWRule& rule, const T* old_weights,
                const T* grads, T* m, T* v, T* new_weights);

  // Moments and direction in the rotated space:
  //   m <- b1 m + (1-b1) g;  v <- b2 v + (1-b2) g^2;  g <- m / (sqrt(v) + eps)
  void (*rotated_direction)(int64_t n, const MomentRule& rule, T* g, T* m,
                            T* v);

  // w <- keep w - step d
  void (*apply)(int64_t n, double keep, double step, const T* old_weights,
                const T* direction, T* new_weights);

  // Sum of x^2 in double precision: interleaved partial sums, added up
  // pairwise, so that the order does not depend on the vector width.
  double (*square_sum)(int64_t n, const T* x);
};

}  // namespace gimbal::worker
