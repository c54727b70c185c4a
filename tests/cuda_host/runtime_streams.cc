// Streams, events and graphs.
#include <memory>

#include "tests/cuda_host/device.h"
#include "tests/cuda_host/graph.h"
#include "tests/cuda_host/runtime.h"

using namespace gimbal::cuda_host;

cudaError_t cudaStreamCreate(cudaStream_t* pStream) {
  return cudaStreamCreateWithFlags(pStream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream,
                                      unsigned int flags) {
  return cudaStreamCreateWithPriority(pStream, flags, 0);
}

// Priorities change nothing: the order is drawn.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* pStream,
                                         unsigned int flags, int /*priority*/) {
  if (flags > cudaStreamNonBlocking) return Remember(cudaErrorInvalidValue);
  return Remember(Device::Get().CreateStream(
      CurrentDevice(), flags == cudaStreamDefault, pStream));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* leastPriority,
                                             int* greatestPriority) {
  *leastPriority = 0;
  *greatestPriority = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return Remember(Device::Get().DestroyStream(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return Remember(Device::Get().WaitForStream(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return Remember(Device::Get().QueryStream(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned int flags) {
  if (event == nullptr) return Remember(cudaErrorInvalidResourceHandle);
  if (flags != 0) return Remember(cudaErrorNotSupported);
  return Remember(Device::Get().WaitEvent(stream, event));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn,
                               void* userData) {
  return Remember(Device::Get().Enqueue(
      stream, OnceOnHost([fn, userData] { fn(userData); })));
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  if ((flags & ~(cudaEventBlockingSync | cudaEventDisableTiming)) != 0) {
    return Remember(cudaErrorInvalidValue);
  }
  *event = new CUevent_st;
  (*event)->timing = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event == nullptr) return Remember(cudaErrorInvalidResourceHandle);
  return Remember(Device::Get().RecordEvent(event, stream));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event == nullptr) return Remember(cudaErrorInvalidResourceHandle);
  return Remember(Device::Get().QueryEvent(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) return Remember(cudaErrorInvalidResourceHandle);
  return Remember(Device::Get().WaitForEvent(event));
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start,
                                 cudaEvent_t end) {
  if (start == nullptr || end == nullptr) {
    return Remember(cudaErrorInvalidResourceHandle);
  }
  return Remember(Device::Get().ElapsedTime(start, end, ms));
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return Remember(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   cudaStreamCaptureMode mode) {
  return Remember(Device::Get().BeginCapture(stream, mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* pGraph) {
  return Remember(Device::Get().EndCapture(stream, pGraph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  cudaStreamCaptureStatus* pCaptureStatus) {
  return Remember(Device::Get().CaptureStatus(stream, pCaptureStatus));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* pGraphExec, cudaGraph_t graph,
                                 unsigned long long flags) {
  if (graph == nullptr || flags != 0) return Remember(cudaErrorInvalidValue);
  *pGraphExec = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream) {
  if (graphExec == nullptr) return Remember(cudaErrorInvalidValue);
  return Remember(Device::Get().Enqueue(stream, Nothing()));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream) {
  if (graphExec == nullptr) return Remember(cudaErrorInvalidValue);
  return Remember(Device::Get().Enqueue(stream, LaunchNodes(graphExec->nodes)));
}

// Only how many there are: nodes cannot be looked at.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                              size_t* numNodes) {
  if (graph == nullptr) return Remember(cudaErrorInvalidValue);
  if (nodes != nullptr) return Remember(cudaErrorNotSupported);
  *numNodes = graph->nodes->size();
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
  delete graphExec;
  return cudaSuccess;
}
