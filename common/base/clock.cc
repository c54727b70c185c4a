#include "common/base/clock.h"

namespace gimbal::base {
namespace {

class RealClock final : public Clock {
 public:
  SteadyTime Now() const override { return std::chrono::steady_clock::now(); }
  double UnixSeconds() const override {
    return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
  }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock clock;
  return clock;
}

}  // namespace gimbal::base
