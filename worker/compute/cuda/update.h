// Elementwise parts of the update rules, as worker/optim/kernels.h has them:
// one pass over memory each. n elements; `old_weights` and `new_weights` may be
// the same array, all others are disjoint. Asynchronous on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/optim/kernels.h"

namespace gimbal::compute::cuda {

// Bytes: 28 n (read w, g, m, v; write w, m, v). FLOP: 16 n.
void AdamWStep(cudaStream_t stream, int64_t n, const worker::AdamWRule& rule,
               const float* old_weights, const float* grads, float* m, float* v,
               float* new_weights);

// Bytes: 24 n (read g, m, v; write g, m, v). FLOP: 13 n.
void RotatedDirection(cudaStream_t stream, int64_t n,
                      const worker::AdamWRule& rule, float* g, float* m,
                      float* v);

// Bytes: 20 n (read w, g, m; write w, m). FLOP: 7 n.
void SgdStep(cudaStream_t stream, int64_t n, double beta, double scale,
             bool nesterov, double keep, double lr, const float* old_weights,
             const float* grads, float* m, float* new_weights);

// new <- keep old - step direction; `direction` may be `new_weights`.
// Bytes: 12 n. FLOP: 3 n.
void ApplyDirection(cudaStream_t stream, int64_t n, double keep, double step,
                    const float* old_weights, const float* direction,
                    float* new_weights);

// Bytes: 16 n (read g, m; write m, out). FLOP: 5 n.
void Momentum(cudaStream_t stream, int64_t n, double beta, double scale,
              bool nesterov, const float* grads, float* m, float* out);

// Terms of one Predict.
inline constexpr int64_t kPredictionTerms = 32;

// `count` terms, at most kPredictionTerms; null weights: 0. `weights` may be
// `out`. Bytes: 16 n. FLOP: (1 + 5 count) n.
void Predict(cudaStream_t stream, int64_t n,
             const worker::PredictionTerm* terms, int64_t count, double eps,
             const float* weights, const float* m, const float* v, float* out);

// Bytes: 16 n. FLOP: 5 n.
void Compensate(cudaStream_t stream, int64_t n, double scale, double lambda,
                const float* now, const float* then, float* g);
// Bytes: 24 n. FLOP: 12 n.
void CompensateAdaptive(cudaStream_t stream, int64_t n, double scale,
                        double lambda, double keep, double root_factor,
                        double eps, const float* now, const float* then,
                        float* v, float* g);

// Bytes: 20 n. FLOP: 3 n.
void ErrorFeedback(cudaStream_t stream, int64_t n, const float* old_weights,
                   float* previous, float* new_weights);

// Bytes: 16 n. FLOP: 4 n.
void TrackVelocity(cudaStream_t stream, int64_t n, double decay,
                   const float* old_weights, const float* new_weights,
                   float* d);

}  // namespace gimbal::compute::cuda
