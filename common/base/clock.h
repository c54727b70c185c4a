// Time as a constructor argument, so that tests can move it.
#pragma once

#include <chrono>

namespace gimbal::base {

using SteadyTime = std::chrono::steady_clock::time_point;
using Seconds = std::chrono::duration<double>;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Never goes back; for intervals and deadlines.
  virtual SteadyTime Now() const = 0;
  // Seconds since the Unix epoch; for people and files only.
  virtual double UnixSeconds() const = 0;

  static const Clock& Real();
};

// Splits the time that passes into laps.
class Stopwatch {
 public:
  // Seconds since the last lap, or since the watch was made.
  double Lap() {
    const SteadyTime now = std::chrono::steady_clock::now();
    const double seconds = Seconds(now - lap_).count();
    lap_ = now;
    return seconds;
  }

 private:
  SteadyTime lap_ = std::chrono::steady_clock::now();
};

}  // namespace gimbal::base
