#include "worker/transport/call_watch.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace gimbal::worker {
namespace {

constexpr std::chrono::milliseconds kLook{50};

struct Call {
  base::SteadyTime deadline;
  std::string text;
  std::function<void(const std::string&)> stuck;
};

class Watchdog {
 public:
  static Watchdog& Get() {
    // Never destroyed: its thread stays.
    static Watchdog* const watchdog = new Watchdog;
    return *watchdog;
  }

  uint64_t Add(Call call) {
    std::lock_guard lock(mutex_);
    calls_.emplace(++last_, std::move(call));
    if (calls_.size() == 1) added_.notify_one();
    return last_;
  }
  void Remove(uint64_t number) {
    std::lock_guard lock(mutex_);
    calls_.erase(number);
  }

 private:
  Watchdog() {
    std::thread([this] { Loop(); }).detach();
  }

  void Loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      added_.wait(lock, [&] { return !calls_.empty(); });
      std::vector<Call> late;
      const base::SteadyTime now = base::Clock::Real().Now();
      for (auto& [number, call] : calls_) {
        if (now < call.deadline || call.stuck == nullptr) continue;
        late.push_back(call);
        call.stuck = nullptr;
      }
      lock.unlock();
      for (const Call& call : late) call.stuck(call.text);
      std::this_thread::sleep_for(kLook);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable added_;
  std::map<uint64_t, Call> calls_;
  uint64_t last_ = 0;
};

}  // namespace

CallWatch::CallWatch(const std::string& call, std::chrono::milliseconds limit,
                     std::function<void(const std::string&)> stuck)
    : number_(Watchdog::Get().Add(
          {.deadline = base::Clock::Real().Now() + limit,
           .text = absl::StrCat(call, " has not returned within ",
                                limit.count(), " ms"),
           .stuck = std::move(stuck)})) {}

CallWatch::~CallWatch() { Watchdog::Get().Remove(number_); }

}  // namespace gimbal::worker
