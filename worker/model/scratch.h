// Memory that forward and backward of a stage's parts share, one after the
// other. N = microbatch * context rows.
#pragma once

#include <algorithm>

#include "worker/compute/aligned_buffer.h"
#include "worker/compute/attention.h"
#include "worker/model/model_spec.h"

namespace gimbal::worker {

inline int64_t Rows(const StageSpec& spec) {
  return int64_t{spec.microbatch} * spec.model.context;
}

inline compute::AttentionShape HeadsOf(const StageSpec& spec) {
  return {.samples = spec.microbatch,
          .context = spec.model.context,
          .heads = spec.model.heads,
          .head_dim = spec.model.hidden / spec.model.heads};
}

template <typename T>
struct Scratch {
  T* wide = nullptr;       // [N, max(3C, mlp_hidden)]
  T* narrow = nullptr;     // [N, C]
  T* residual = nullptr;   // [N, C], gradient of the residual stream
  T* attention = nullptr;  // of compute::AttentionScratch

  static Scratch Take(const StageSpec& spec, compute::Carver<T>& carver) {
    const int64_t rows = Rows(spec);
    const int64_t c = spec.model.hidden;
    Scratch scratch;
    scratch.wide =
        carver.Take(rows * std::max<int64_t>(3 * c, spec.model.mlp_hidden));
    scratch.narrow = carver.Take(rows * c);
    scratch.residual = carver.Take(rows * c);
    scratch.attention = carver.Take(compute::AttentionScratch(HeadsOf(spec)));
    return scratch;
  }
};

}  // namespace gimbal::worker
