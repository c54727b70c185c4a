// What plays the GPU: streams, and the one thread that executes them.
//
// Nothing runs at call time. Which of the streams that could go on does so, for
// how many blocks of a kernel, and how long the device dawdles before it
// begins, is drawn from a seed: GIMBAL_CUDA_HOST_SEED, or SetSeed. Every few
// draws it favours another stream, so that streams overtake each other by far.
//
// All is thread-safe. All devices of a process share the thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/cuda_host/graph.h"
#include "tests/cuda_host/include/cuda_runtime_api.h"
#include "tests/cuda_host/operation.h"
#include "tests/cuda_host/random.h"
#include "tests/cuda_host/runtime.h"

struct CUstream_st {
  struct Entry {
    std::unique_ptr<gimbal::cuda_host::Operation> operation;
    gimbal::cuda_host::CompletionPtr completion;
  };
  int device = 0;
  // Ordered with the legacy stream.
  bool blocking = true;
  bool destroyed = false;
  std::deque<Entry> queue;
  gimbal::cuda_host::CompletionPtr last;
  // The recording that takes what is put into the stream; null: none does.
  std::shared_ptr<gimbal::cuda_host::Capture> capture;
  uint32_t rank = 0;  // Lower ones are favoured at present; 0: not drawn yet.
};

struct CUevent_st {
  bool timing = true;
  gimbal::cuda_host::CompletionPtr last;
  // Where in a recording it stands, if it was recorded there last.
  std::weak_ptr<gimbal::cuda_host::Capture> capture;
  std::vector<int> captured_tips;
};

namespace gimbal::cuda_host {

// Draws everything anew from `seed`. No stream may have work.
void SetSeed(uint64_t seed);

class Device {
 public:
  static Device& Get();

  cudaError_t CreateStream(int device, bool blocking, cudaStream_t* stream);
  cudaError_t DestroyStream(cudaStream_t stream);
  // 0 and cudaStreamLegacy mean the legacy stream of `device`; null for a
  // handle that is none.
  CUstream_st* Find(cudaStream_t stream, int device);

  // Puts an operation into the stream, or into the recording it belongs to.
  cudaError_t Enqueue(cudaStream_t stream, const MakeOperation& make);
  cudaError_t WaitForStream(cudaStream_t stream);
  cudaError_t QueryStream(cudaStream_t stream);
  cudaError_t WaitForAll();

  cudaError_t RecordEvent(cudaEvent_t event, cudaStream_t stream);
  cudaError_t WaitEvent(cudaStream_t stream, cudaEvent_t event);
  cudaError_t QueryEvent(cudaEvent_t event);
  cudaError_t WaitForEvent(cudaEvent_t event);
  cudaError_t ElapsedTime(cudaEvent_t start, cudaEvent_t end, float* ms);

  cudaError_t BeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
  cudaError_t EndCapture(cudaStream_t stream, cudaGraph_t* graph);
  cudaError_t CaptureStatus(cudaStream_t stream,
                            cudaStreamCaptureStatus* status);
  // Fails, and spoils the recordings it would disturb, if the calling thread
  // may not make calls now that a recording does not allow.
  cudaError_t CheckUnsafeCall();

  // A fault of a kernel is met by every later call.
  cudaError_t sticky_error();

  // Something that an operation waits for outside the device has come.
  void Wake();

  void Reseed(uint64_t seed);

 private:
  Device();
  void Loop();
  CUstream_st* Draw();
  void Run(CUstream_st& stream, std::unique_lock<std::mutex>& lock);
  void Fault(const std::string& text);
  void Dawdle(std::unique_lock<std::mutex>& lock);
  CompletionPtr Push(CUstream_st& stream, const MakeOperation& make);
  cudaError_t Await(const CompletionPtr& completion,
                    std::unique_lock<std::mutex>& lock);
  cudaError_t Query(const CompletionPtr& completion);
  CUstream_st* FindLocked(cudaStream_t stream, int device);
  CUstream_st& Legacy(int device);
  void OrderWithLegacy(CUstream_st& stream);
  // Whether a blocking stream was being recorded, which the legacy stream's
  // implicit order would disturb.
  bool SpoilBlockingCaptures();

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable progress_;
  std::vector<std::unique_ptr<CUstream_st>> streams_;
  std::map<int, CUstream_st*> legacy_;
  std::vector<std::shared_ptr<Capture>> captures_;
  Random random_;
  int waiting_ = 0;     // Threads that wait for the device.
  bool asked_ = false;  // Somebody asked whether it is ready since it was idle.
  bool idle_ = true;
  cudaError_t sticky_ = cudaSuccess;
};

}  // namespace gimbal::cuda_host
