#include "worker/pipeline/cuda/cuda_engine.h"

#include <bit>
#include <list>
#include <type_traits>
#include <utility>

#include "worker/compute/cuda/convert.h"
#include "worker/compute/cuda/graphs.h"
#include "worker/compute/cuda/memory.h"
#include "worker/compute/cuda/range.h"
#include "worker/compute/cuda/reduce.h"
#include "worker/compute/cuda/wire.h"
#include "worker/model/scratch.h"
#include "worker/pipeline/cuda/cuda_model.h"
#include "worker/pipeline/cuda/cuda_update.h"
#include "worker/pipeline/cuda/cuda_versions.h"
#include "worker/transport/cuda/link_memory.h"

namespace gimbal::worker {
namespace {

namespace cuda = compute::cuda;

size_t Bytes(int64_t floats) { return static_cast<size_t>(floats) * 4; }

// What a graph computes.
enum : uint64_t { kForward, kBackward };

uint64_t Number(const float* address) {
  return reinterpret_cast<uintptr_t>(address);
}

// The same tensor in memory of the host.
StateTensor<float> OnHost(StateTensor<float> tensor, uint16_t* half) {
  tensor.half = half;
  return tensor;
}

// Runs of an arena that belong to one layer file, as LayerSquareSums has them.
struct LayerRanges {
  explicit LayerRanges(const ParameterTable& table) {
    int layer = -1;
    for (const Param& p : table.params()) {
      if (p.layer != layer) {
        layer = p.layer;
        begin.push_back(p.offset);
        end.push_back(0);
      }
      end.back() = p.offset + p.size();
    }
  }
  int64_t count() const { return static_cast<int64_t>(begin.size()); }

  std::vector<int64_t> begin, end;
};

// T: of activations, float or Bf16.
template <typename T>
class CudaEngine final : public StageEngine {
 public:
  explicit CudaEngine(const StageEngineSpec& spec)
      : spec_(spec.stage),
        wire_(spec.wire),
        table_(ParameterTable::ForStage(spec.stage)),
        ranges_(table_),
        tf32_gemm_(spec.stage.model.tf32 ? std::make_unique<cuda::Gemm>(true)
                                         : nullptr),
        model_(spec.stage, table_, compute_.get(),
               tf32_gemm_ ? *tf32_gemm_ : gemm_),
        versions_(table_, compute_.get()),
        update_(spec.update, table_, compute_.get(), gemm_),
        incoming_(BoundaryBytes()),
        outgoing_(Encodes() ? BoundaryBytes() : 0),
        plain_(kConverts && wire_ == compute::WireFormat::kInt8
                   ? Rows(spec_) * spec_.model.hidden
                   : 0),
        residual_(Rows(spec_) * spec_.model.hidden),
        range_ends_(2 * ranges_.count()),
        sums_((1 + cuda::kReduceScratch) * ranges_.count()),
        loss_(1),
        found_(1) {
    CopyNow(range_ends_.data(), ranges_.begin.data(),
            ranges_.begin.size() * sizeof(int64_t), cudaMemcpyHostToDevice);
    CopyNow(range_ends_.data() + ranges_.count(), ranges_.end.data(),
            ranges_.end.size() * sizeof(int64_t), cudaMemcpyHostToDevice);
  }
  ~CudaEngine() override { cudaDeviceSynchronize(); }

  float* Allocate(int64_t size) override {
    return arenas_.emplace_back(size).data();
  }
  float* AllocateWeights(int64_t size) override {
    return versions_.Allocate(size);
  }
  compute::Memory& host_memory() const override { return PinnedMemory(); }
  void Read(const float* from, int64_t n, float* host) const override {
    CopyNow(host, from, Bytes(n), cudaMemcpyDeviceToHost);
  }
  void Write(const float* host, int64_t n, float* to) override {
    CopyNow(to, host, Bytes(n), cudaMemcpyHostToDevice);
    versions_.Written(to, n);
  }
  void Copy(const float* from, int64_t n, float* to) override {
    GIMBAL_CUDA_CHECK(cudaMemcpyAsync(
        to, from, Bytes(n), cudaMemcpyDeviceToDevice, compute_.get()));
    versions_.Written(to, n);
  }
  void Zero(int64_t n, float* x) override {
    GIMBAL_CUDA_CHECK(cudaMemsetAsync(x, 0, Bytes(n), compute_.get()));
    versions_.Written(x, n);
  }
  bool AllFinite(int64_t n, const float* x) const override {
    GIMBAL_CUDA_CHECK(
        cudaMemsetAsync(found_.data(), 0, found_.bytes(), compute_.get()));
    cuda::FindNonFinite(compute_.get(), n, x, found_.data());
    int found = 0;
    CopyNow(&found, found_.data(), sizeof found, cudaMemcpyDeviceToHost);
    return found == 0;
  }

  void MakeSlots(int count) override {
    for (int i = 0; i < count; ++i) slots_.push_back(model_.NewSlot());
  }
  int64_t activation_bytes() const override {
    int64_t bytes = model_.scratch_bytes() +
                    static_cast<int64_t>(incoming_.bytes() + outgoing_.bytes() +
                                         plain_.bytes() + residual_.bytes());
    for (const Slot& slot : slots_) {
      bytes += static_cast<int64_t>(slot.memory.bytes() + slot.ids.bytes() +
                                    slot.targets.bytes());
    }
    return bytes;
  }
  std::span<float> values(int slot) override {
    const auto& memory = SlotAt(slot).memory;
    return {memory.data(), static_cast<size_t>(memory.size())};
  }
  void SetTokens(std::span<const int32_t> host, int slot) override {
    model_.SetTokens(host.data(), SlotAt(slot));
  }

  void Forward(const float* weights, const EngineInput& input,
               int slot) override {
    const cuda::Range range("forward");
    Slot& s = SlotAt(slot);
    if (spec_.last) {
      CopyNow(s.targets.data(), input.targets.data(), s.targets.bytes(),
              cudaMemcpyHostToDevice);
    }
    if (spec_.first) {
      model_.SetTokens(input.tokens.data(), s);
    } else {
      Bring(input.hidden, s.act.input());
    }
    const CudaWeights<T> version = versions_.Of(weights);
    graphs_.Run({kForward, Number(weights), static_cast<uint64_t>(slot)},
                [&] { model_.Forward(version, s, loss_.data()); });
    if (!spec_.first) arrived_.Wait();
  }
  void ReadOutput(int slot, std::byte* boundary) override {
    const cuda::Range range("send");
    Take(SlotAt(slot).act.output, boundary);
  }
  // Of the last Forward: its slot does not matter, one loss is asked for before
  // the next one is made.
  double Loss(int /*slot*/) override {
    double sum = 0;
    CopyNow(&sum, loss_.data(), sizeof sum, cudaMemcpyDeviceToHost);
    return sum / static_cast<double>(Rows(spec_));
  }
  void Backward(const float* weights, const std::byte* doutput,
                double loss_scale, int slot, float* grads,
                std::byte* dinput) override {
    const cuda::Range range("backward");
    if (!spec_.last) Bring(doutput, residual_.data());
    Slot& s = SlotAt(slot);
    const CudaWeights<T> version = versions_.Of(weights);
    graphs_.Run({kBackward, Number(weights), static_cast<uint64_t>(slot),
                 Number(grads), std::bit_cast<uint64_t>(loss_scale)},
                [&] {
                  model_.Backward(version, loss_scale, s, grads,
                                  residual_.data());
                });
    if (spec_.first) model_.BackwardEmbedding(s, residual_.data(), grads);
    if (!spec_.last) arrived_.Wait();
    if (dinput != nullptr) Take(residual_.data(), dinput);
  }

  std::vector<double> LayerSquareSums(const float* grads) override {
    const int64_t count = ranges_.count();
    cuda::SquareSums(compute_.get(), count, range_ends_.data(),
                     range_ends_.data() + count, grads, sums_.data(),
                     sums_.data() + count);
    std::vector<double> sums(static_cast<size_t>(count));
    CopyNow(sums.data(), sums_.data(), sums.size() * sizeof(double),
            cudaMemcpyDeviceToHost);
    return sums;
  }
  void Apply(const UpdateInput& input) override {
    const cuda::Range range("update");
    update_.Apply(input);
    versions_.Written(input.new_weights, table_.size());
    if (input.predicted != nullptr)
      versions_.Written(input.predicted, table_.size());
  }
  void FillBackwardWeights(const float* newest, float* out) override {
    update_.FillBackwardWeights(newest, out);
    versions_.Written(out, table_.size());
  }
  std::optional<BasisHealth> basis_health() const override {
    return update_.basis_health();
  }
  BasisSeconds basis_seconds() const override {
    return update_.basis_seconds();
  }
  std::vector<StateTensor<float>> State() const override {
    return update_.State();
  }
  void Save(const StateTensor<float>& tensor, float* host) const override {
    update_.SettleState();
    if (tensor.half == nullptr) {
      CopyNow(host, tensor.data, Bytes(tensor.size()), cudaMemcpyDefault);
      return;
    }
    std::vector<uint16_t> bits(static_cast<size_t>(tensor.size()));
    CopyNow(bits.data(), tensor.half, bits.size() * sizeof(uint16_t),
            cudaMemcpyDefault);
    OnHost(tensor, bits.data()).Save(host);
  }
  void Load(const float* host, const StateTensor<float>& tensor) override {
    update_.SettleState();
    update_.StateWritten();
    if (tensor.half == nullptr) {
      CopyNow(tensor.data, host, Bytes(tensor.size()), cudaMemcpyDefault);
      return;
    }
    std::vector<uint16_t> bits(static_cast<size_t>(tensor.size()));
    OnHost(tensor, bits.data()).Load(host);
    CopyNow(tensor.half, bits.data(), bits.size() * sizeof(uint16_t),
            cudaMemcpyDefault);
  }

 private:
  using Slot = typename CudaModel<T>::Slot;
  // Boundary tensors are fp32, which holds every number of bf16.
  static constexpr bool kConverts = !std::is_same_v<T, float>;

  Slot& SlotAt(int slot) { return slots_[static_cast<size_t>(slot)]; }

  // After everything that has been enqueued, and done when it returns.
  void CopyNow(void* to, const void* from, size_t bytes,
               cudaMemcpyKind kind) const {
    GIMBAL_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, kind, compute_.get()));
    compute_.Wait();
  }

  // A boundary tensor from a link's memory to where the computing stream goes
  // on with it. The transfer runs beside what that stream still does;
  // `arrived_` says when the link's memory may be given up.
  void Bring(const std::byte* from, T* to) {
    consumed_.Delay(receive_);
    GIMBAL_CUDA_CHECK(cudaMemcpyAsync(incoming_.data(), from, incoming_.bytes(),
                                      cudaMemcpyDefault, receive_.get()));
    arrived_.Record(receive_);
    arrived_.Delay(compute_);
    Decode(to);
    consumed_.Record(compute_);
  }

  // A boundary tensor that has been computed, to a link's memory.
  void Take(const T* from, std::byte* to) {
    const void* encoded = from;
    if (Encodes()) {
      Encode(from);
      encoded = outgoing_.data();
    }
    computed_.Record(compute_);
    computed_.Delay(send_);
    GIMBAL_CUDA_CHECK(cudaMemcpyAsync(to, encoded, incoming_.bytes(),
                                      cudaMemcpyDefault, send_.get()));
    send_.Wait();
  }

  // Whether boundary tensors are fp32 between what is computed and the wire.
  bool Converts() const {
    return kConverts && wire_ != compute::WireFormat::kBf16;
  }
  // Whether they travel in another form than they are computed in.
  bool Encodes() const {
    return kConverts ? Converts() : wire_ != compute::WireFormat::kFp32;
  }
  // From `incoming_`, and to `outgoing_`.
  void Decode(T* to) {
    const int64_t rows = Rows(spec_), cols = spec_.model.hidden;
    if constexpr (kConverts) {
      if (Converts()) {
        const float* const plain = Plain(incoming_.data());
        if (plain == plain_.data()) {
          cuda::DecodeWire(compute_.get(), wire_, rows, cols, incoming_.data(),
                           plain_.data());
        }
        cuda::ToBf16(compute_.get(), rows * cols, plain, to);
      } else {
        GIMBAL_CUDA_CHECK(
            cudaMemcpyAsync(to, incoming_.data(), incoming_.bytes(),
                            cudaMemcpyDeviceToDevice, compute_.get()));
      }
    } else {
      cuda::DecodeWire(compute_.get(), wire_, rows, cols, incoming_.data(), to);
    }
  }
  void Encode(const T* from) {
    const int64_t rows = Rows(spec_), cols = spec_.model.hidden;
    if constexpr (kConverts) {
      float* const plain = Plain(outgoing_.data());
      cuda::FromBf16(compute_.get(), rows * cols, from, plain);
      if (plain == plain_.data()) {
        cuda::EncodeWire(compute_.get(), wire_, rows, cols, plain,
                         outgoing_.data());
      }
    } else {
      cuda::EncodeWire(compute_.get(), wire_, rows, cols, from,
                       outgoing_.data());
    }
  }
  // Where the fp32 of a boundary tensor lies that is computed in bf16.
  float* Plain(std::byte* as_it_travels) {
    return wire_ == compute::WireFormat::kFp32
               ? reinterpret_cast<float*>(as_it_travels)
               : plain_.data();
  }

  int64_t BoundaryBytes() const {
    return compute::WireBytes(wire_, Rows(spec_), spec_.model.hidden);
  }

  const StageSpec spec_;
  const compute::WireFormat wire_;
  const ParameterTable table_;
  const LayerRanges ranges_;
  cuda::Stream compute_, receive_, send_;
  cuda::Event arrived_, consumed_, computed_;
  std::list<cuda::DeviceBuffer<float>> arenas_;
  cuda::Gemm gemm_;
  const std::unique_ptr<cuda::Gemm> tf32_gemm_;
  cuda::Graphs graphs_{compute_};
  CudaModel<T> model_;
  CudaVersions<T> versions_;
  CudaUpdate update_;
  std::vector<Slot> slots_;
  // Boundary tensors: as they come, as they go, in between, and a gradient.
  cuda::DeviceBuffer<std::byte> incoming_, outgoing_;
  cuda::DeviceBuffer<float> plain_;
  cuda::DeviceBuffer<T> residual_;
  cuda::DeviceBuffer<int64_t> range_ends_;  // begins, then ends
  cuda::DeviceBuffer<double> sums_, loss_;
  cuda::DeviceBuffer<int> found_;
};

}  // namespace

std::unique_ptr<StageEngine> MakeCudaEngine(const StageEngineSpec& spec) {
  if (spec.stage.model.bf16) {
    return std::make_unique<CudaEngine<cuda::Bf16>>(spec);
  }
  return std::make_unique<CudaEngine<float>>(spec);
}

}  // namespace gimbal::worker
