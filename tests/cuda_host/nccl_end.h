// One end of a look-alike NCCL communicator: two processes (or two devices of
// one), joined by a Unix socket, that send to each other in the order of their
// streams.
//
// A transfer goes on only when both ends are at it, and no sooner than it
// likes. What a peer does that dies is what the worst of real ones does:
// nothing ever comes, and no error tells.
//
// Faults are files in the folder that GIMBAL_NCCL_HOST_FAULTS names, which a
// test puts there when it wants one to happen. Whoever meets a file takes it
// away, so each happens once, in one process:
//
//   init     this end never gets beyond its making
//   gone     the connection closes under a transfer, as if the peer had died
//   silence  a transfer never goes on
//   error    a transfer never goes on, and an asynchronous error says so
//   abort    ncclCommAbort never returns
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "tests/cuda_host/include/nccl.h"
#include "tests/cuda_host/random.h"

namespace gimbal::cuda_host {

// Whether this fault is to happen, here and now.
bool TakeNcclFault(const char* name);

// Thread-safe.
class NcclEnd {
 public:
  struct Transfer {
    std::byte* data = nullptr;
    size_t bytes = 0;
    bool sends = false;
    std::atomic<bool> done = false;
  };

  // Rank 0 waits at `listener`, which it owns from now on; rank 1 goes to
  // `name`.
  NcclEnd(int rank, const std::string& name, int listener, int device);
  ~NcclEnd();

  int rank() const { return rank_; }
  ncclResult_t state() const { return state_; }
  std::string last_error() const;
  void Post(std::shared_ptr<Transfer> transfer);
  // Ends every transfer, now and later.
  void Abort();

 private:
  void Loop();
  bool Join();
  bool Meet();
  bool Execute(const Transfer& transfer);
  // False when that was all: after an abort, or because the peer is gone.
  bool Await(int fd, short events);
  bool Write(const void* data, size_t bytes);
  bool Read(void* data, size_t bytes);
  bool Fail(ncclResult_t state, const std::string& why);
  void Dawdle();

  const int rank_;
  const std::string name_;
  const int device_;
  int listener_ = -1, socket_ = -1;
  Random random_;  // the thread's
  std::atomic<ncclResult_t> state_ = ncclInProgress;
  std::atomic<bool> aborted_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Transfer>> posted_;
  std::string last_error_;
  std::thread thread_;
};

}  // namespace gimbal::cuda_host
