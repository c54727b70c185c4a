// Looks after calls into a library that may never return.
//
//   CallWatch watch("ncclCommAbort", limit, [](const std::string& text) {...});
//   ncclCommAbort(comm);
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace gimbal::worker {

class CallWatch {
 public:
  // `stuck` is called on a thread of its own, once, when this still lives after
  // `limit`; the text says which call has taken how long.
  CallWatch(const std::string& call, std::chrono::milliseconds limit,
            std::function<void(const std::string&)> stuck);
  CallWatch(const CallWatch&) = delete;
  ~CallWatch();

 private:
  const uint64_t number_;
};

}  // namespace gimbal::worker
