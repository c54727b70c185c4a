#include "worker/model/stage.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "worker/compute/aligned_buffer.h"
#include "worker/compute/embedding.h"
#include "worker/compute/isa.h"
#include "worker/model/block.h"
#include "worker/model/head.h"
#include "worker/model/scratch.h"

namespace gimbal::worker {

template <typename T>
class ActivationSlot {
 public:
  explicit ActivationSlot(const StageSpec& spec)
      : values_(ValueCount(spec)), ids_(IdCount(spec)) {
    compute::Carver<T> values(values_.data());
    Take(spec, values);
    compute::Carver<int32_t> ids(ids_.data());
    if (spec.first) tokens = ids.Take(Rows(spec));
    if (spec.last) targets = ids.Take(Rows(spec));
  }

  static int64_t Bytes(const StageSpec& spec) {
    return ValueCount(spec) * static_cast<int64_t>(sizeof(T)) +
           IdCount(spec) * static_cast<int64_t>(sizeof(int32_t));
  }

  std::span<T> values() {
    return {values_.data(), static_cast<size_t>(values_.size())};
  }
  T* input() { return blocks.empty() ? output : blocks.front().x; }

  std::vector<BlockActivations<T>> blocks;
  T* output = nullptr;  // [N, C], what comes out of the last block
  HeadActivations<T> head;
  int32_t* tokens = nullptr;
  int32_t* targets = nullptr;
  double loss = 0;

 private:
  ActivationSlot() = default;

  static int64_t ValueCount(const StageSpec& spec) {
    compute::Carver<T> counter(nullptr);
    ActivationSlot().Take(spec, counter);
    return counter.used();
  }
  static int64_t IdCount(const StageSpec& spec) {
    return (int64_t{spec.first} + int64_t{spec.last}) *
           compute::AlignedSize<int32_t>(Rows(spec));
  }

  void Take(const StageSpec& spec, compute::Carver<T>& carver) {
    for (int i = 0; i < spec.blocks; ++i) {
      blocks.push_back(BlockActivations<T>::Take(spec, carver));
    }
    output = carver.Take(Rows(spec) * spec.model.hidden);
    if (spec.last) head = HeadActivations<T>::Take(spec, carver);
  }

  compute::AlignedBuffer<T> values_;
  compute::AlignedBuffer<int32_t> ids_;
};

template <typename T>
struct Stage<T>::Impl {
  explicit Impl(const StageSpec& stage_spec)
      : spec(stage_spec), table(ParameterTable::ForStage(spec)) {
    for (int i = 0; i < spec.blocks; ++i) {
      blocks.emplace_back(spec, table, spec.first_block + i);
    }
    if (spec.last) head.emplace(spec, table);
    memory = compute::AlignedBuffer<T>(ScratchBytes(spec) /
                                       static_cast<int64_t>(sizeof(T)));
    compute::Carver<T> carver(memory.data());
    scratch = Scratch<T>::Take(spec, carver);
  }

  void Load(const T* weights, const StageInput<T>& input,
            ActivationSlot<T>* slot) const {
    if (spec.last) std::ranges::copy(input.targets, slot->targets);
    if (!spec.first) {
      std::copy_n(input.hidden, Rows(spec) * spec.model.hidden, slot->input());
      return;
    }
    std::ranges::copy(input.tokens, slot->tokens);
    compute::Kernels<compute::Embedding<T>>().forward(
        spec.microbatch, spec.model.context, spec.model.hidden, slot->tokens,
        weights + table.at("wte").offset, weights + table.at("wpe").offset,
        slot->input());
  }

  StageSpec spec;
  ParameterTable table;
  std::vector<Block<T>> blocks;
  std::optional<Head<T>> head;
  compute::AlignedBuffer<T> memory;
  Scratch<T> scratch;
};

template <typename T>
Stage<T>::Stage(const StageSpec& spec) : impl_(std::make_unique<Impl>(spec)) {}

template <typename T>
Stage<T>::~Stage() = default;

template <typename T>
const StageSpec& Stage<T>::spec() const {
  return impl_->spec;
}

template <typename T>
const ParameterTable& Stage<T>::table() const {
  return impl_->table;
}

template <typename T>
int64_t Stage<T>::SlotBytes(const StageSpec& spec) {
  return ActivationSlot<T>::Bytes(spec);
}

template <typename T>
int64_t Stage<T>::ScratchBytes(const StageSpec& spec) {
  compute::Carver<T> counter(nullptr);
  Scratch<T>::Take(spec, counter);
  return counter.used() * static_cast<int64_t>(sizeof(T));
}

template <typename T>
int64_t Stage<T>::boundary_size() const {
  return Rows(impl_->spec) * impl_->spec.model.hidden;
}

template <typename T>
void Stage<T>::SlotDeleter::operator()(ActivationSlot<T>* slot) const {
  delete slot;
}

template <typename T>
typename Stage<T>::SlotPtr Stage<T>::NewSlot() const {
  return SlotPtr(new ActivationSlot<T>(impl_->spec));
}

template <typename T>
std::span<T> Stage<T>::values(ActivationSlot<T>* slot) const {
  return slot->values();
}

template <typename T>
void Stage<T>::SetTokens(std::span<const int32_t> tokens,
                         ActivationSlot<T>* slot) const {
  std::ranges::copy(tokens, slot->tokens);
}

template <typename T>
void Stage<T>::Forward(const T* weights, const StageInput<T>& input,
                       ActivationSlot<T>* slot) {
  const Impl& s = *impl_;
  s.Load(weights, input, slot);
  for (size_t i = 0; i < s.blocks.size(); ++i) {
    T* y = i + 1 < s.blocks.size() ? slot->blocks[i + 1].x : slot->output;
    s.blocks[i].Forward(weights, slot->blocks[i], s.scratch, y);
  }
  if (s.spec.last) {
    slot->loss = s.head->Forward(weights, slot->output, slot->targets,
                                 slot->head, s.scratch);
  }
}

template <typename T>
const T* Stage<T>::output(const ActivationSlot<T>& slot) const {
  return slot.output;
}

template <typename T>
double Stage<T>::loss(const ActivationSlot<T>& slot) const {
  return slot.loss;
}

template <typename T>
const T* Stage<T>::logits(const ActivationSlot<T>& slot) const {
  return slot.head.logits;
}

template <typename T>
void Stage<T>::Backward(const T* weights, const T* doutput, double loss_scale,
                        ActivationSlot<T>* slot, T* grads, T* dinput) {
  const Impl& s = *impl_;
  T* residual = dinput != nullptr ? dinput : s.scratch.residual;
  if (s.spec.last) {
    s.head->Backward(weights, slot->output, slot->targets, loss_scale,
                     slot->head, s.scratch, grads, residual);
  } else {
    std::copy_n(doutput, boundary_size(), residual);
  }
  for (size_t i = s.blocks.size(); i-- > 0;) {
    s.blocks[i].Backward(weights, slot->blocks[i], s.scratch, grads, residual);
  }
  if (s.spec.first) {
    compute::Kernels<compute::Embedding<T>>().backward(
        s.spec.microbatch, s.spec.model.context, s.spec.model.hidden,
        slot->tokens, residual, grads + s.table.at("wte").offset,
        grads + s.table.at("wpe").offset);
  }
}

template class Stage<float>;
template class Stage<double>;

}  // namespace gimbal::worker
