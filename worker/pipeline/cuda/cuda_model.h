// Forward and backward of a stage on a device, microbatch by microbatch: the
// same steps, activations and parameters as worker/model/stage.h. All pointers
// but those called host are the device's; everything is enqueued into one
// stream.
//
// Not thread-safe.
#pragma once

#include <vector>

#include "worker/compute/cuda/gemm.h"
#include "worker/compute/cuda/memory.h"
#include "worker/model/block.h"
#include "worker/model/head.h"
#include "worker/model/parameter_table.h"

namespace gimbal::worker {

class CudaModel {
 public:
  // `table` and `gemm` must outlive it.
  CudaModel(const StageSpec& spec, const ParameterTable& table,
            cudaStream_t stream, compute::cuda::Gemm& gemm);
  ~CudaModel();

  // What a microbatch keeps between its forward and its backward.
  struct Slot {
    compute::cuda::DeviceBuffer<float> memory;
    std::vector<BlockActivations<float>> blocks;
    float* output = nullptr;      // [N, C]
    HeadActivations<float> head;  // `lse`: the rows' losses
    // First stage: ids, and where each of them occurs (TokenGroups).
    compute::cuda::DeviceBuffer<int32_t> ids;
    int64_t groups = 0;
    compute::cuda::DeviceBuffer<int32_t> targets;

    float* input() const { return blocks.empty() ? output : blocks[0].x; }
  };
  Slot NewSlot() const;
  int64_t scratch_bytes() const {
    return static_cast<int64_t>(memory_.bytes());
  }

  // First stage; `host` may be given up when the call returns.
  void SetTokens(const int32_t* host, Slot& slot);
  // From tokens or slot.input() on. Writes the loss to *loss at the last stage,
  // and leaves the gradient of the logits in place of them.
  void Forward(const float* weights, Slot& slot, double* loss);
  // `residual` [N, C]: the gradient of the output (ignored at the last stage),
  // becomes that of the input, or of the embeddings' sum.
  void Backward(const float* weights, double loss_scale, Slot& slot,
                float* grads, float* residual);
  // First stage, after Backward: the embeddings' gradients. Its launches depend
  // on the tokens; those of Forward and Backward on their arguments alone.
  void BackwardEmbedding(const Slot& slot, const float* residual, float* grads);

 private:
  struct BlockOffsets;
  struct Work {
    float* wide = nullptr;    // [N, max(3C, mlp_hidden)]
    float* narrow = nullptr;  // [N, C]
    float* sums = nullptr;    // partial sums of the reductions
    static Work Take(const StageSpec& spec, compute::Carver<float>& carver);
  };

  void ForwardBlock(const float* weights, const BlockOffsets& at,
                    const BlockActivations<float>& act, float* y);
  void ForwardHead(const float* weights, Slot& slot, double* loss);
  void BackwardHead(const float* weights, double loss_scale, Slot& slot,
                    float* grads, float* dx);
  void BackwardMlp(const float* weights, const BlockOffsets& at,
                   const BlockActivations<float>& act, float* grads,
                   float* residual);
  void BackwardAttention(const float* weights, const BlockOffsets& at,
                         const BlockActivations<float>& act, float* grads,
                         float* residual);
  void Norm(const float* weights, int64_t weight, int64_t bias, const float* x,
            float* mean, float* rstd);
  // dy in work_.narrow, which becomes the norm's output.
  void NormBackward(const float* weights, int64_t weight, int64_t bias,
                    const float* x, const float* mean, const float* rstd,
                    float* grads, float* residual);
  void WeightGradient(const compute::LinearShape& shape, float alpha,
                      const float* dy, const float* x, float* dw, float* dbias);

  const StageSpec spec_;
  const ParameterTable& table_;
  const cudaStream_t stream_;
  const int64_t n_, c_, m_;  // rows, hidden, mlp_hidden
  std::vector<BlockOffsets> blocks_;
  compute::cuda::Gemm& gemm_;
  compute::cuda::DeviceBuffer<float> memory_;
  Work work_;
};

}  // namespace gimbal::worker
