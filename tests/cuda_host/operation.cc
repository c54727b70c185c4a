#include "tests/cuda_host/operation.h"

#include <utility>

#include "tests/cuda_host/memory.h"

namespace gimbal::cuda_host {
namespace {

thread_local bool in_host_function = false;

class Call : public Operation {
 public:
  Call(std::function<std::string()> work, bool on_host)
      : work_(std::move(work)), on_host_(on_host) {}

  bool Step(Random& /*random*/) override {
    if (on_host_) {
      in_host_function = true;
      AllowDeviceMemory(false);
    }
    error_ = work_();
    if (on_host_) {
      AllowDeviceMemory(true);
      in_host_function = false;
    }
    return true;
  }

  std::string Error() const override { return error_; }

 private:
  const std::function<std::string()> work_;
  const bool on_host_;
  std::string error_;
};

class WaitFor : public Operation {
 public:
  explicit WaitFor(CompletionPtr completion)
      : completion_(std::move(completion)) {}

  bool Ready() const override { return completion_->done; }
  bool Step(Random& /*random*/) override { return true; }

 private:
  const CompletionPtr completion_;
};

}  // namespace

bool InHostFunction() { return in_host_function; }

MakeOperation OnceChecked(std::function<std::string()> work) {
  return
      [work = std::move(work)] { return std::make_unique<Call>(work, false); };
}

MakeOperation Once(std::function<void()> work) {
  return OnceChecked([work = std::move(work)] {
    work();
    return std::string();
  });
}

MakeOperation OnceOnHost(std::function<void()> work) {
  return [work = std::move(work)] {
    return std::make_unique<Call>(
        [work] {
          work();
          return std::string();
        },
        true);
  };
}

MakeOperation After(CompletionPtr completion) {
  return [completion = std::move(completion)] {
    return std::make_unique<WaitFor>(completion);
  };
}

MakeOperation Nothing() {
  return Once([] {});
}

}  // namespace gimbal::cuda_host
