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

struct MomentumOp {
  template <int W>
  __device__ void At(int64_t i) const {
    const Pack<W> g = Load<W>(grads + i);
    Pack<W> mi = Load<W>(m + i), result;
    for (int j = 0; j < W; ++j) {
      mi.at[j] = beta * mi.at[j] + scale * g.at[j];
      result.at[j] = of_m * mi.at[j] + of_g * g.at[j];
    }
    Store(m + i, mi);
    Store(out + i, result);
  }

  float beta, scale, of_m, of_g;
  const float* grads;
  float* m;
  float* out;
};

struct PredictOp {
  template <int W>
  __device__ void At(int64_t i) const {
    const Pack<W> mi = Load<W>(m + i), vi = Load<W>(v + i);
    Pack<W> sum = {};
    if (weights != nullptr) sum = Load<W>(weights + i);
    for (int j = 0; j < W; ++j) {
      const float root = sqrtf(vi.at[j]);
      for (int k = 0; k < count; ++k) {
        sum.at[j] -= steps[k] * mi.at[j] / (root * factors[k] + eps);
      }
    }
    Store(out + i, sum);
  }

  float steps[kPredictionTerms], factors[kPredictionTerms];
  int count;
  float eps;
  const float* weights;
  const float* m;
  const float* v;
  float* out;
};

struct CompensateOp {
  template <int W>
  __device__ void At(int64_t i) const {
    const Pack<W> a = Load<W>(now + i), b = Load<W>(then + i);
    Pack<W> gi = Load<W>(g + i);
    for (int j = 0; j < W; ++j) {
      const float x = scale * gi.at[j];
      gi.at[j] = x + lambda * x * x * (a.at[j] - b.at[j]);
    }
    Store(g + i, gi);
  }

  float scale, lambda;
  const float* now;
  const float* then;
  float* g;
};

struct CompensateAdaptiveOp {
  template <int W>
  __device__ void At(int64_t i) const {
    const Pack<W> a = Load<W>(now + i), b = Load<W>(then + i);
    Pack<W> gi = Load<W>(g + i), vi = Load<W>(v + i);
    for (int j = 0; j < W; ++j) {
      const float x = scale * gi.at[j];
      vi.at[j] = keep * vi.at[j] + change * x * x;
      gi.at[j] = x + lambda * x * x * (a.at[j] - b.at[j]) /
                         (sqrtf(vi.at[j]) * root_factor + eps);
    }
    Store(v + i, vi);
    Store(g + i, gi);
  }

  float scale, lambda, keep, change, root_factor, eps;
  const float* now;
  const float* then;
  float* v;
  float* g;
};

struct ErrorFeedbackOp {
  template <int W>
  __device__ void At(int64_t i) const {
    const Pack<W> old = Load<W>(old_weights + i);
    Pack<W> last = Load<W>(previous + i), now = Load<W>(new_weights + i);
    for (int j = 0; j < W; ++j) {
      const float u = now.at[j] - old.at[j];
      now.at[j] += u - last.at[j];
      last.at[j] = u;
    }
    Store(new_weights + i, now);
    Store(previous + i, last);
  }

  const float* old_weights;
  float* previous;
  float* new_weights;
};

struct VelocityOp {
  template <int W>
  __device__ void At(int64_t i) const {
    const Pack<W> old = Load<W>(old_weights + i),
                  now = Load<W>(new_weights + i);
    Pack<W> di = Load<W>(d + i);
    for (int j = 0; j < W; ++j) {
      di.at[j] = keep * di.at[j] + change * (now.at[j] - old.at[j]);
    }
    Store(d + i, di);
  }

  float keep, change;
  const float* old_weights;
  const float* new_weights;
  float* d;
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

void Momentum(cudaStream_t stream, int64_t n, double beta, double scale,
              bool nesterov, const float* grads, float* m, float* out) {
  ForEach(
      stream, n,
      MomentumOp{static_cast<float>(beta), static_cast<float>(scale),
                 nesterov ? static_cast<float>(beta) : 1.0f,
                 nesterov ? static_cast<float>(scale) : 0.0f, grads, m, out},
      {grads, m, out});
}

void Predict(cudaStream_t stream, int64_t n,
             const worker::PredictionTerm* terms, int64_t count, double eps,
             const float* weights, const float* m, const float* v, float* out) {
  PredictOp op{.count = static_cast<int>(count),
               .eps = static_cast<float>(eps),
               .weights = weights,
               .m = m,
               .v = v,
               .out = out};
  for (int64_t i = 0; i < count; ++i) {
    op.steps[i] = static_cast<float>(terms[i].step);
    op.factors[i] = static_cast<float>(terms[i].root_factor);
  }
  ForEach(stream, n, op, {weights, m, v, out});
}

void Compensate(cudaStream_t stream, int64_t n, double scale, double lambda,
                const float* now, const float* then, float* g) {
  ForEach(stream, n,
          CompensateOp{static_cast<float>(scale), static_cast<float>(lambda),
                       now, then, g},
          {now, then, g});
}

void CompensateAdaptive(cudaStream_t stream, int64_t n, double scale,
                        double lambda, double keep, double root_factor,
                        double eps, const float* now, const float* then,
                        float* v, float* g) {
  ForEach(stream, n,
          CompensateAdaptiveOp{
              static_cast<float>(scale), static_cast<float>(lambda),
              static_cast<float>(keep), static_cast<float>(1 - keep),
              static_cast<float>(root_factor), static_cast<float>(eps), now,
              then, v, g},
          {now, then, v, g});
}

void ErrorFeedback(cudaStream_t stream, int64_t n, const float* old_weights,
                   float* previous, float* new_weights) {
  ForEach(stream, n, ErrorFeedbackOp{old_weights, previous, new_weights},
          {old_weights, previous, new_weights});
}

void TrackVelocity(cudaStream_t stream, int64_t n, double decay,
                   const float* old_weights, const float* new_weights,
                   float* d) {
  ForEach(stream, n,
          VelocityOp{static_cast<float>(decay), static_cast<float>(1 - decay),
                     old_weights, new_weights, d},
          {old_weights, new_weights, d});
}

}  // namespace gimbal::compute::cuda
