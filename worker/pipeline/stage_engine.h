// What a back end does for one stage: it holds the stage's tensors and computes
// on them. StageState says which arena is which version, StageRunner what runs
// when; both are the same for every back end.
//
// Arenas (laid out by the parameter table), slots and the state of the update
// rule lie in the engine's memory, which may be a device's: their addresses are
// names, to be read and written through the engine alone. `host` is the
// caller's own memory, and a boundary tensor lies, as the spec's `wire` writes
// it, in that of a link, which is the host's or DeviceLinks::tensors of the
// back end; the engine has done with both when a call returns.
//
// One virtual call per microbatch, update or tensor, none per element.
//
// Errors: std::bad_alloc, and std::runtime_error when a device fails; after the
// latter nothing of the engine can be trusted. Not thread-safe: one thread at a
// time makes it and uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "worker/compute/memory.h"
#include "worker/compute/wire.h"
#include "worker/model/stage.h"
#include "worker/optim/stage_update.h"

namespace gimbal::worker {

struct StageEngineSpec {
  StageSpec stage;
  StageUpdateSpec update;
  compute::WireFormat wire = compute::WireFormat::kFp32;
};

// As StageInput, with `hidden` as it came.
struct EngineInput {
  std::span<const int32_t> tokens;
  std::span<const int32_t> targets;
  const std::byte* hidden = nullptr;
};

class StageEngine {
 public:
  virtual ~StageEngine() = default;

  // Memory. `size` elements, zeroed; it lives as long as the engine.
  virtual float* Allocate(int64_t size) = 0;
  // For arenas of weights: Forward and Backward are given no others.
  virtual float* AllocateWeights(int64_t size) { return Allocate(size); }
  // Of the host, which Read and Save reach fastest.
  virtual compute::Memory& host_memory() const { return compute::HeapMemory(); }
  virtual void Read(const float* from, int64_t n, float* host) const = 0;
  virtual void Write(const float* host, int64_t n, float* to) = 0;
  virtual void Copy(const float* from, int64_t n, float* to) = 0;
  virtual void Zero(int64_t n, float* x) = 0;
  virtual bool AllFinite(int64_t n, const float* x) const = 0;

  // Microbatches, as worker/model/stage.h. Slots are made once, before the
  // first one.
  virtual void MakeSlots(int count) = 0;
  // Of scratch and slots together.
  virtual int64_t activation_bytes() const = 0;
  virtual std::span<float> values(int slot) = 0;
  virtual void SetTokens(std::span<const int32_t> host, int slot) = 0;
  // Tokens and targets are the host's, hidden is a boundary tensor.
  virtual void Forward(const float* weights, const EngineInput& input,
                       int slot) = 0;
  // What Forward left in the slot: the output [B*T, C], or at the last stage
  // the loss.
  virtual void ReadOutput(int slot, std::byte* boundary) = 0;
  virtual double Loss(int slot) = 0;
  // `doutput` and `dinput` are boundary tensors.
  virtual void Backward(const float* weights, const std::byte* doutput,
                        double loss_scale, int slot, float* grads,
                        std::byte* dinput) = 0;

  // The update rule, as worker/optim/stage_update.h.
  virtual std::vector<double> LayerSquareSums(const float* grads) = 0;
  virtual void Apply(const UpdateInput& input) = 0;
  virtual void FillBackwardWeights(const float* newest, float* out) = 0;
  virtual std::optional<BasisHealth> basis_health() const = 0;
  // Time spent on bases so far. Without a clock for it all of an update counts
  // as one.
  virtual BasisSeconds basis_seconds() const { return {}; }
  virtual std::vector<StateTensor<float>> State() const = 0;
  // Copies a tensor of State() out, or back in; both are exact.
  virtual void Save(const StateTensor<float>& tensor, float* host) const = 0;
  virtual void Load(const float* host, const StateTensor<float>& tensor) = 0;
};

using EngineFactory =
    std::function<std::unique_ptr<StageEngine>(const StageEngineSpec&)>;

}  // namespace gimbal::worker
