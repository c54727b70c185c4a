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

// (moment_step m + gradient_step g) / (sqrt(v) / root_correction + eps)
struct AdamWRule {
  MomentRule moments;
  double grad_scale = 1;
  double keep = 1;             // 1 - lr wd
  double moment_step = 0;      // plain: lr / (1 - b1^t)
  double gradient_step = 0;    // plain: 0
  double root_correction = 1;  // sqrt(1 - b2^t)
};

// One future update of the prediction: `step` and `root_factor` belong to it.
struct PredictionTerm {
  double step = 0;
  double root_factor = 1;
};

template <typename T>
struct OptimKernels {
  // As torch.optim.AdamW and NAdam with decoupled decay, with g the scaled
  // gradient:
  //   m <- b1 m + (1-b1) g;  v <- b2 v + (1-b2) g^2
  //   w <- keep w - (moment_step m + gradient_step g)
  //                 / (sqrt(v) / root_correction + eps)
  void (*adamw)(int64_t n, const AdamWRule& rule, const T* old_weights,
                const T* grads, T* m, T* v, T* new_weights);

  // The same in the rotated space, as a direction in place of g (keep and
  // grad_scale are not used).
  void (*rotated_direction)(int64_t n, const AdamWRule& rule, T* g, T* m, T* v);

  // m <- b m + s g;  w <- keep w - lr (nesterov ? s g + b m : m)
  void (*sgd)(int64_t n, double beta, double scale, bool nesterov, double keep,
              double lr, const T* old_weights, const T* grads, T* m,
              T* new_weights);

  // m <- b m + s g;  out <- nesterov ? s g + b m : m
  void (*momentum)(int64_t n, double beta, double scale, bool nesterov,
                   const T* grads, T* m, T* out);

  // out <- w - sum over terms of step m / (sqrt(v) root_factor + eps); the sum
  // runs in the order of the terms. `weights` may be null: 0.
  void (*predict)(int64_t n, const PredictionTerm* terms, int64_t count,
                  double eps, const T* weights, const T* m, const T* v, T* out);

  // DC-ASGD: g <- s g + lambda (s g)^2 (now - then).
  void (*compensate)(int64_t n, double scale, double lambda, const T* now,
                     const T* then, T* g);
  // Its adaptive form: lambda over sqrt(v root_factor^2) + eps. With keep < 1,
  // v is an average that this call updates first: v <- keep v + (1-keep) (s
  // g)^2.
  void (*compensate_adaptive)(int64_t n, double scale, double lambda,
                              double keep, double root_factor, double eps,
                              const T* now, const T* then, T* v, T* g);

  // Error feedback: with u = new - old, new <- new + u - previous; previous <-
  // u.
  void (*error_feedback)(int64_t n, const T* old_weights, T* previous,
                         T* new_weights);

  // Discrepancy correction: d <- decay d + (1-decay) (new - old).
  void (*track_velocity)(int64_t n, double decay, const T* old_weights,
                         const T* new_weights, T* d);

  // w <- keep w - step d. `direction` may be `new_weights`.
  void (*apply)(int64_t n, double keep, double step, const T* old_weights,
                const T* direction, T* new_weights);

  // Sum of x^2 in double precision: interleaved partial sums, added up
  // pairwise, so that the order does not depend on the vector width.
  double (*square_sum)(int64_t n, const T* x);

  // No element is infinite or NaN.
  bool (*all_finite)(int64_t n, const T* x);

  // fp16 storage of bases; round to nearest even.
  void (*to_half)(int64_t n, const T* x, uint16_t* out);
  void (*from_half)(int64_t n, const uint16_t* x, T* out);
};

}  // namespace gimbal::worker
