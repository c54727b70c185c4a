#include "common/trace/clock.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

namespace gimbal::trace {
namespace {

int64_t SteadyNs(base::SteadyTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             time.time_since_epoch())
      .count();
}

int64_t NsOf(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

// Pids that follow each other get shares of the skew that are far apart.
double Skew() {
  const char* most = std::getenv("GIMBAL_TRACE_SKEW");
  if (most == nullptr) return 0;
  constexpr double kGoldenRatio = 0.6180339887;
  const double share = std::fmod(getpid() * kGoldenRatio, 1.0);
  return std::atof(most) * (2 * share - 1);
}

int64_t EpochNs() {
  const base::Clock& clock = base::Clock::Real();
  return NsOf(clock.UnixSeconds() + Skew()) - SteadyNs(clock.Now());
}

}  // namespace

int64_t ClockNs(base::SteadyTime time) {
  static const int64_t epoch = EpochNs();
  return epoch + SteadyNs(time);
}

int64_t ClockId() {
  static const int64_t id = [] {
    std::random_device random;
    return std::uniform_int_distribution<int64_t>(
        1, std::numeric_limits<int64_t>::max())(random);
  }();
  return id;
}

ClockSample MeasureClock(int64_t sent_ns, int64_t received_ns,
                         int64_t answered_ns, int64_t arrived_ns) {
  const int64_t there = received_ns - sent_ns;
  const int64_t back = answered_ns - arrived_ns;
  const int64_t underway = (arrived_ns - sent_ns) - (answered_ns - received_ns);
  return {.at_ns = arrived_ns,
          .offset_ns = there / 2 + back / 2,
          .uncertainty_ns = std::max<int64_t>(underway, 0) / 2};
}

}  // namespace gimbal::trace
