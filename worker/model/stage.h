// Forward and backward of the part of the model that one stage holds, for one
// microbatch at a time with any version of the weights.
//
//   Stage<float> stage(spec);
//   auto slot = stage.NewSlot();
//   stage.Forward(weights, input, slot.get());     // fills slot->output
//   stage.Backward(weights, doutput, 1.0, slot.get(), grads, dinput);
//
// All memory is allocated by the constructor and NewSlot; Forward and Backward
// allocate nothing. T is float (training) or double (tests only).
// Not thread-safe: one thread uses a Stage and its slots.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "worker/model/model_spec.h"
#include "worker/model/parameter_table.h"

namespace gimbal::worker {

// What one microbatch in flight keeps between its forward and its backward.
template <typename T>
class ActivationSlot;

// B samples of T tokens. `hidden` is [B*T, C], for every stage but the first.
// `tokens` ([B*T], first stage) and `targets` ([B*T], last stage) are token ids
// in [0, V): checked by the data loader, not here.
template <typename T>
struct StageInput {
  std::span<const int32_t> tokens;
  std::span<const int32_t> targets;
  const T* hidden = nullptr;
};

template <typename T>
class Stage {
 public:
  explicit Stage(const StageSpec& spec);
  ~Stage();

  const StageSpec& spec() const;
  const ParameterTable& table() const;

  // Bytes of one slot, and of the scratch memory shared by all of them; also
  // without making a stage.
  static int64_t SlotBytes(const StageSpec& spec);
  static int64_t ScratchBytes(const StageSpec& spec);
  int64_t slot_bytes() const { return SlotBytes(spec()); }
  int64_t scratch_bytes() const { return ScratchBytes(spec()); }
  // Elements of a boundary tensor: B * T * C.
  int64_t boundary_size() const;

  struct SlotDeleter {
    void operator()(ActivationSlot<T>* slot) const;
  };
  using SlotPtr = std::unique_ptr<ActivationSlot<T>, SlotDeleter>;
  SlotPtr NewSlot() const;
  // All that a forward leaves in the slot but token ids and loss: what has to
  // be kept to run its backward in another process. Not for the last stage.
  std::span<T> values(ActivationSlot<T>* slot) const;
  // Sets the ids that the first stage's backward needs, in such a slot.
  void SetTokens(std::span<const int32_t> tokens,
                 ActivationSlot<T>* slot) const;

  // Runs the stage forward. The slot holds all that Backward needs, inputs
  // included.
  void Forward(const T* weights, const StageInput<T>& input,
               ActivationSlot<T>* slot);
  // Output of the last Forward into the slot: [B*T, C]. Not at the last stage.
  const T* output(const ActivationSlot<T>& slot) const;
  // Mean cross-entropy (natural log) over the B*T targets. Last stage only.
  double loss(const ActivationSlot<T>& slot) const;
  // Logits of the slot, [B*T, V]; valid until Backward. Last stage only.
  const T* logits(const ActivationSlot<T>& slot) const;

  // Adds this microbatch's parameter gradients to `grads` (an arena) and, when
  // `dinput` is not null, writes the gradient of the input, [B*T, C], perhaps
  // over `doutput`. The last
  // stage ignores `doutput` and starts from loss * loss_scale; the others
  // ignore `loss_scale`, because it came with `doutput`.
  void Backward(const T* weights, const T* doutput, double loss_scale,
                ActivationSlot<T>* slot, T* grads, T* dinput);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gimbal::worker
