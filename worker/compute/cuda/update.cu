#include "worker/compute/cuda/for_each.cuh"
#include "worker/compute/cuda/update.h"

namespace gimbal::compute::cuda {
namespace {

struct Moments {
  explicit Moments(const worker::AdamWRule& rule)
      : b1(static_cast<float>(rule.moments.beta1)),
        c1(static_cast<float>(1 - rule.moments.beta1)),
        b2(static_cast<float>(rule.moments.beta2)),
        c2(static_cast<float>(1 - rule.moments.beta2)),
        eps(static_cast<float>(rule.moments.eps)),
        moment_step(static_cast<float>(rule.moment_step)),
        gradient_step(static_cast<float>(rule.gradient_step)),
        root_factor(static_cast<float>(1 / rule.root_correction)) {}

  // Updates the moments by g and returns the step.
  __device__ float Step(float g, float& m, float& v) const {
    m = b1 * m + c1 * g;
    v = b2 * v + c2 * g * g;
    return (moment_step * m + gradient_step * g) /
           (sqrtf(v) * root_factor + eps);
  }

  float b1, c1, b2, c2, eps, moment_step, gradient_step, root_factor;
};

struct AdamWOp {
  template <int W>
  __device__ void At(int64_t i) const {
    const Pack<W> w = Load<W>(old_weights + i), g = Load<W>(grads + i);
    Pack<W> mi = Load<W>(m + i), vi = Load<W>(v + i), out;
    for (int j = 0; j < W; ++j) {
      out.at[j] =
          keep * w.at[j] - moments.Step(scale * g.at[j], mi.at[j], vi.at[j]);
    }
    Store(m + i, mi);
    Store(v + i, vi);
    Store(new_weights + i, out);
  }

  Moments moments;
  float scale, keep;
  const float* old_weights;
  const float* grads;
  float* m;
  float* v;
  float* new_weights;
};

struct RotatedOp {
  template <int W>
  __device__ void At(int64_t i) const {
    Pack<W> gi = Load<W>(g + i), mi = Load<W>(m + i), vi = Load<W>(v + i);
    for (int j = 0; j < W; ++j) {
      gi.at[j] = moments.Step(gi.at[j], mi.at[j], vi.at[j]);
    }
    Store(m + i, mi);
    Store(v + i, vi);
    Store(g + i, gi);
  }

  Moments moments;
  float* g;
  float* m;
  float* v;
};

struct SgdOp {
  template <int W>
  __device__ void At(int64_t i) const {
    const Pack<W> w = Load<W>(old_weights + i), g = Load<W>(grads + i);
    Pack<W> mi = Load<W>(m + i), out;
    for (int j = 0; j < W; ++j) {
      mi.at[j] = beta * mi.at[j] + scale * g.at[j];
      out.at[j] = keep * w.at[j] - (of_m * mi.at[j] + of_g * g.at[j]);
    }
    Store(m + i, mi);
    Store(new_weights + i, out);
  }

  float beta, scale, keep, of_m, of_g;
  const float* old_weights;
  const float* grads;
  float* m;
  float* new_weights;
};

struct ApplyOp {
  template <int W>
  __device__ void At(int64_t i) const {
    const Pack<W> w = Load<W>(old_weights + i), d = Load<W>(direction + i);
    Pack<W> out;
    for (int j = 0; j < W; ++j) out.at[j] = keep * w.at[j] - step * d.at[j];
    Store(new_weights + i, out);
  }

  float keep, step;
  const float* old_weights;
  const float* direction;
  float* new_weights;
};

}  // namespace

void AdamWStep(cudaStream_t stream, int64_t n, const worker::AdamWRule& rule,
               const float* old_weights, const float* grads, float* m, float* v,
               float* new_weights) {
  ForEach(stream, n,
          AdamWOp{Moments(rule), static_cast<float>(rule.grad_scale),
                  static_cast<float>(rule.keep), old_weights, grads, m, v,
                  new_weights},
          {old_weights, grads, m, v, new_weights});
}

void RotatedDirection(cudaStream_t stream, int64_t n,
                      const worker::AdamWRule& rule, float* g, float* m,
                      float* v) {
  ForEach(stream, n, RotatedOp{Moments(rule), g, m, v}, {g, m, v});
}

void SgdStep(cudaStream_t stream, int64_t n, double beta, double scale,
             bool nesterov, double keep, double lr, const float* old_weights,
             const float* grads, float* m, float* new_weights) {
  ForEach(stream, n,
          SgdOp{static_cast<float>(beta), static_cast<float>(scale),
                static_cast<float>(keep),
                static_cast<float>(nesterov ? lr * beta : lr),
                static_cast<float>(nesterov ? lr * scale : 0), old_weights,
                grads, m, new_weights},
          {old_weights, grads, m, new_weights});
}

void ApplyDirection(cudaStream_t stream, int64_t n, double keep, double step,
                    const float* old_weights, const float* direction,
                    float* new_weights) {
  ForEach(stream, n,
          ApplyOp{static_cast<float>(keep), static_cast<float>(step),
                  old_weights, direction, new_weights},
          {old_weights, direction, new_weights});
}

}  // namespace gimbal::compute::cuda
