// Runs a model cut into stages by hand, one after the other over boundary
// tensors, and gathers the results under the parameters' names.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/model/stage.h"

namespace gimbal::worker {

inline StageSpec StageOf(const ModelSpec& model, int microbatch, int stages,
                         int stage) {
  const int first = model.layers * stage / stages;
  return {.model = model,
          .first_block = first,
          .blocks = model.layers * (stage + 1) / stages - first,
          .first = stage == 0,
          .last = stage == stages - 1,
          .microbatch = microbatch};
}

template <typename T>
struct ChainResult {
  double loss = 0;
  std::map<std::string, std::vector<T>> grads;
};

// `tokens` and `targets` hold any number of microbatches; gradients and loss
// are means over all of them.
template <typename T>
ChainResult<T> RunChain(const ModelSpec& model, int microbatch, int stages,
                        const std::vector<int32_t>& tokens,
                        const std::vector<int32_t>& targets) {
  std::vector<std::unique_ptr<Stage<T>>> chain;
  std::vector<std::vector<T>> weights, grads;
  for (int s = 0; s < stages; ++s) {
    chain.push_back(
        std::make_unique<Stage<T>>(StageOf(model, microbatch, stages, s)));
    const ParameterTable& table = chain.back()->table();
    weights.emplace_back(table.size());
    grads.emplace_back(table.size());
    // Larger than usual, so that no part of the gradient is negligible.
    table.Initialize(7, 0.3, weights.back().data());
  }
  const size_t rows = static_cast<size_t>(microbatch) * model.context;
  const size_t count = tokens.size() / rows;
  ChainResult<T> result;
  for (size_t i = 0; i < count; ++i) {
    StageInput<T> input{.tokens = std::span(tokens).subspan(i * rows, rows),
                        .targets = std::span(targets).subspan(i * rows, rows)};
    std::vector<typename Stage<T>::SlotPtr> slots;
    for (int s = 0; s < stages; ++s) {
      slots.push_back(chain[s]->NewSlot());
      chain[s]->Forward(weights[s].data(), input, slots[s].get());
      input.hidden = chain[s]->output(*slots[s]);
    }
    result.loss += chain.back()->loss(*slots.back()) / count;
    std::vector<T> gradient;
    for (int s = stages; s-- > 0;) {
      std::vector<T> dinput(s == 0 ? 0 : chain[s]->boundary_size());
      chain[s]->Backward(weights[s].data(), gradient.data(), 1.0 / count,
                         slots[s].get(), grads[s].data(),
                         s == 0 ? nullptr : dinput.data());
      gradient = std::move(dinput);
    }
  }
  for (int s = 0; s < stages; ++s) {
    for (const Param& p : chain[s]->table().params()) {
      const T* first = grads[s].data() + p.offset;
      result.grads[p.name] = std::vector<T>(first, first + p.size());
    }
  }
  return result;
}

}  // namespace gimbal::worker
