#include "worker/compute/cuda/graphs.h"

namespace gimbal::compute::cuda {

Graphs::~Graphs() {
  cudaStreamSynchronize(stream_.get());
  for (const auto& [key, graph] : graphs_) {
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  }
}

void Graphs::Run(const GraphKey& key, const std::function<void()>& enqueue) {
  const auto found = graphs_.find(key);
  if (found == graphs_.end()) {
    if (graphs_.size() < kMaxGraphs) graphs_[key] = nullptr;
    enqueue();
    return;
  }
  if (found->second == nullptr) found->second = Record(enqueue);
  GIMBAL_CUDA_CHECK(cudaGraphLaunch(found->second, stream_.get()));
  ++launches_;
}

// Thread-local: other threads may allocate meanwhile.
cudaGraphExec_t Graphs::Record(const std::function<void()>& enqueue) {
  cudaGraph_t graph = nullptr;
  GIMBAL_CUDA_CHECK(
      cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal));
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(stream_.get(), &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  GIMBAL_CUDA_CHECK(cudaStreamEndCapture(stream_.get(), &graph));
  cudaGraphExec_t exec = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  GIMBAL_CUDA_CHECK(error);
  return exec;
}

}  // namespace gimbal::compute::cuda
