#include "worker/pipeline/cpu_engine.h"

#include <algorithm>
#include <list>
#include <stdexcept>

#include "worker/compute/aligned_buffer.h"
#include "worker/compute/isa.h"
#include "worker/model/scratch.h"
#include "worker/optim/kernels.h"

namespace gimbal::worker {
namespace {

class CpuEngine final : public StageEngine {
 public:
  explicit CpuEngine(const StageEngineSpec& spec)
      : spec_(spec.stage),
        wire_(spec.wire),
        table_(ParameterTable::ForStage(spec.stage)),
        update_(spec.update, table_) {
    if (wire_ != compute::WireFormat::kFp32) {
      boundary_ =
          compute::AlignedBuffer<float>(Rows(spec_) * spec_.model.hidden);
    }
  }

  float* Allocate(int64_t size) override {
    return arenas_.emplace_back(size).data();
  }
  void Read(const float* from, int64_t n, float* host) const override {
    std::copy_n(from, n, host);
  }
  void Write(const float* host, int64_t n, float* to) override {
    std::copy_n(host, n, to);
  }
  void Copy(const float* from, int64_t n, float* to) override {
    std::copy_n(from, n, to);
  }
  void Zero(int64_t n, float* x) override { std::fill_n(x, n, 0.0f); }
  bool AllFinite(int64_t n, const float* x) const override {
    return compute::Kernels<OptimKernels<float>>().all_finite(n, x);
  }

  void MakeSlots(int count) override {
    stage_ = std::make_unique<Stage<float>>(spec_);
    for (int i = 0; i < count; ++i) slots_.push_back(stage_->NewSlot());
  }
  int64_t activation_bytes() const override {
    return stage_->scratch_bytes() + boundary_.bytes() +
           stage_->slot_bytes() * static_cast<int64_t>(slots_.size());
  }
  std::span<float> values(int slot) override {
    return stage_->values(SlotAt(slot));
  }
  void SetTokens(std::span<const int32_t> host, int slot) override {
    stage_->SetTokens(host, SlotAt(slot));
  }
  void Forward(const float* weights, const EngineInput& input,
               int slot) override {
    stage_->Forward(weights,
                    {.tokens = input.tokens,
                     .targets = input.targets,
                     .hidden = Decoded(input.hidden)},
                    SlotAt(slot));
  }
  void ReadOutput(int slot, std::byte* boundary) override {
    Encode(stage_->output(*SlotAt(slot)), boundary);
  }
  double Loss(int slot) override { return stage_->loss(*SlotAt(slot)); }
  void Backward(const float* weights, const std::byte* doutput,
                double loss_scale, int slot, float* grads,
                std::byte* dinput) override {
    // It writes its gradient when it has done with the one that came.
    float* out = wire_ == compute::WireFormat::kFp32 || dinput == nullptr
                     ? reinterpret_cast<float*>(dinput)
                     : boundary_.data();
    stage_->Backward(weights, Decoded(doutput), loss_scale, SlotAt(slot), grads,
                     out);
    if (out == boundary_.data() && dinput != nullptr) Encode(out, dinput);
  }

  std::vector<double> LayerSquareSums(const float* grads) override {
    return worker::LayerSquareSums(table_, grads);
  }
  void Apply(const UpdateInput& input) override { update_.Apply(input); }
  void FillBackwardWeights(const float* newest, float* out) override {
    update_.FillBackwardWeights(newest, out);
  }
  std::optional<BasisHealth> basis_health() const override {
    return update_.optimizer().basis_health();
  }
  BasisSeconds basis_seconds() const override {
    return update_.optimizer().basis_seconds();
  }
  std::vector<StateTensor<float>> State() const override {
    return update_.State();
  }
  void Save(const StateTensor<float>& tensor, float* host) const override {
    tensor.Save(host);
  }
  void Load(const float* host, const StateTensor<float>& tensor) override {
    tensor.Load(host);
  }

 private:
  // Boundary tensors of fp32 are used where they lie.
  const float* Decoded(const std::byte* boundary) {
    if (boundary == nullptr || wire_ == compute::WireFormat::kFp32) {
      return reinterpret_cast<const float*>(boundary);
    }
    compute::DecodeWire(wire_, Rows(spec_), spec_.model.hidden, boundary,
                        boundary_.data());
    return boundary_.data();
  }
  void Encode(const float* x, std::byte* boundary) const {
    compute::EncodeWire(wire_, Rows(spec_), spec_.model.hidden, x, boundary);
  }

  ActivationSlot<float>* SlotAt(int slot) {
    return slots_[static_cast<size_t>(slot)].get();
  }

  const StageSpec spec_;
  const compute::WireFormat wire_;
  const ParameterTable table_;
  StageUpdate update_;
  std::list<compute::AlignedBuffer<float>> arenas_;
  compute::AlignedBuffer<float> boundary_;  // decoded, unless it is fp32
  std::unique_ptr<Stage<float>> stage_;
  std::vector<Stage<float>::SlotPtr> slots_;
};

}  // namespace

std::unique_ptr<StageEngine> MakeCpuEngine(const StageEngineSpec& spec) {
  if (spec.stage.model.bf16) {
    throw std::runtime_error("the CPU back end computes in fp32 alone");
  }
  return std::make_unique<CpuEngine>(spec);
}

}  // namespace gimbal::worker
