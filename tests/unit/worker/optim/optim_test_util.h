// What the optimizer tests share: small stages and random gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/random.h"
#include "worker/model/parameter_table.h"

namespace gimbal::worker {

// A whole model in one stage: matrices [C, C], [mlp, C] and [C, mlp], and every
// group of parameters.
inline ParameterTable SmallTable(int hidden, int mlp_hidden, int layers = 1) {
  return ParameterTable::ForStage({.model = {.layers = layers,
                                             .hidden = hidden,
                                             .heads = 1,
                                             .context = 3,
                                             .vocab = 5,
                                             .mlp_hidden = mlp_hidden},
                                   .blocks = layers,
                                   .first = true,
                                   .last = true});
}

// Standard normal gradient of update t for every parameter, zero in the
// padding.
template <typename T>
std::vector<T> RandomGradient(const ParameterTable& table, int64_t update) {
  std::vector<T> grads(table.size());
  for (const Param& p : table.params()) {
    for (int64_t i = 0; i < p.size(); ++i) {
      grads[p.offset + i] =
          static_cast<T>(base::RandomNormal(update, base::StreamOf(p.name), i));
    }
  }
  return grads;
}

template <typename T>
std::vector<T> RandomWeights(const ParameterTable& table) {
  std::vector<T> weights(table.size());
  table.Initialize(7, 0.02, weights.data());
  return weights;
}

}  // namespace gimbal::worker
