// Recordings of streams, and what becomes of them.
#pragma once

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "tests/cuda_host/include/cuda_runtime_api.h"
#include "tests/cuda_host/operation.h"

namespace gimbal::cuda_host {

struct GraphNode {
  MakeOperation make;
  // Numbers of the nodes that end before it begins, all lower than its own.
  std::vector<int> after;
};

// A recording in progress. Guarded by the device's lock.
struct Capture {
  std::vector<GraphNode> nodes;
  CUstream_st* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool invalid = false;
  // Per stream that takes part: what its next operation comes after.
  std::map<CUstream_st*, std::vector<int>> tips;

  void Add(CUstream_st* stream, const MakeOperation& make);
  void Join(CUstream_st* stream, const std::vector<int>& event_tips);
  // Whether all that was recorded comes before the origin's tip.
  bool IsJoined() const;
};

// Executes nodes in any order that they allow, parts of them in turns.
MakeOperation LaunchNodes(std::shared_ptr<const std::vector<GraphNode>> nodes);

}  // namespace gimbal::cuda_host

struct CUgraph_st {
  std::shared_ptr<const std::vector<gimbal::cuda_host::GraphNode>> nodes;
};

struct CUgraphExec_st {
  std::shared_ptr<const std::vector<gimbal::cuda_host::GraphNode>> nodes;
};
