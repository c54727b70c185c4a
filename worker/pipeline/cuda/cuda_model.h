// Forward and backward of a stage on a device, microbatch by microbatch: the
// same steps, activations and parameters as worker/model/stage.h. All pointers
// but those called host are the device's; everything is enqueued into one
// stream.
//
// T, float or Bf16, is the type of activations, their gradients and the factors
// of products. Parameters of norms, embeddings, statistics, losses and the
// gradients of all parameters are fp32.
//
// Not thread-safe.
#pragma once

#include <vector>

#include "worker/compute/cuda/gemm.h"
#include "worker/compute/cuda/memory.h"
#include "worker/model/parameter_table.h"
#include "worker/pipeline/cuda/cuda_layout.h"

namespace gimbal::worker {

// A version of the parameters: in fp32, and as factors of products.
template <typename T>
struct CudaWeights {
  const float* fp32 = nullptr;
  const T* factors = nullptr;
};

template <typename T>
class CudaModel {
 public:
  // `table` and `gemm` must outlive it.
  CudaModel(const StageSpec& spec, const ParameterTable& table,
            cudaStream_t stream, compute::cuda::Gemm& gemm);
  ~CudaModel();

  // What a microbatch keeps between its forward and its backward.
  struct Slot {
    compute::cuda::DeviceBuffer<float> memory;
    CudaActivations<T> act;
    // First stage: ids, and where each of them occurs (TokenGroups).
    compute::cuda::DeviceBuffer<int32_t> ids;
    int64_t groups = 0;
    compute::cuda::DeviceBuffer<int32_t> targets;
  };
  Slot NewSlot() const;
  int64_t scratch_bytes() const {
    return static_cast<int64_t>(memory_.bytes());
  }

  // First stage; `host` may be given up when the call returns.
  void SetTokens(const int32_t* host, Slot& slot);
  // From tokens or slot.act.input() on. Writes the loss to *loss at the last
  // stage, and leaves the gradient of the logits in place of them.
  void Forward(const CudaWeights<T>& weights, Slot& slot, double* loss);
  // `residual` [N, C]: the gradient of the output (ignored at the last stage),
  // becomes that of the input, or of the embeddings' sum.
  void Backward(const CudaWeights<T>& weights, double loss_scale, Slot& slot,
                float* grads, T* residual);
  // First stage, after Backward: the embeddings' gradients. Its launches depend
  // on the tokens; those of Forward and Backward on their arguments alone.
  void BackwardEmbedding(const Slot& slot, const T* residual, float* grads);

 private:
  struct BlockOffsets;

  void ForwardBlock(const CudaWeights<T>& weights, const BlockOffsets& at,
                    const BlockActivations<T, float>& act, T* y);
  void ForwardHead(const CudaWeights<T>& weights, Slot& slot, double* loss);
  void BackwardHead(const CudaWeights<T>& weights, double loss_scale,
                    Slot& slot, float* grads, T* dx);
  void BackwardMlp(const CudaWeights<T>& weights, const BlockOffsets& at,
                   const BlockActivations<T, float>& act, float* grads,
                   T* residual);
  void BackwardAttention(const CudaWeights<T>& weights, const BlockOffsets& at,
                         const BlockActivations<T, float>& act, float* grads,
                         T* residual);
  void Norm(const CudaWeights<T>& weights, int64_t weight, int64_t bias,
            const T* x, float* mean, float* rstd);
  // dy in work_.narrow, which becomes the norm's output.
  void NormBackward(const CudaWeights<T>& weights, int64_t weight, int64_t bias,
                    const T* x, const float* mean, const float* rstd,
                    float* grads, T* residual);
  void WeightGradient(const compute::LinearShape& shape, float alpha,
                      const T* dy, const T* x, float* dw, float* dbias);

  const StageSpec spec_;
  const ParameterTable& table_;
  const cudaStream_t stream_;
  const int64_t n_, c_, m_;  // rows, hidden, mlp_hidden
  std::vector<BlockOffsets> blocks_;
  compute::cuda::Gemm& gemm_;
  compute::cuda::DeviceBuffer<float> memory_;
  CudaWork<T> work_;
};

}  // namespace gimbal::worker
