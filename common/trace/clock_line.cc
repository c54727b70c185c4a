#include "common/trace/clock_line.h"

#include <algorithm>
#include <cstdlib>

namespace gimbal::trace {
namespace {

const ClockSample& Best(std::span<const ClockSample> samples) {
  return *std::ranges::min_element(samples, {}, &ClockSample::uncertainty_ns);
}

}  // namespace

ClockLine FitClock(std::span<const ClockSample> samples) {
  if (samples.empty()) return {};
  const ClockSample& best = Best(samples);
  ClockLine line{.at_ns = best.at_ns,
                 .offset_ns = best.offset_ns,
                 .uncertainty_ns = best.uncertainty_ns};
  const size_t third = samples.size() / 3;
  if (third == 0) return line;
  const ClockSample& early = Best(samples.first(third));
  const ClockSample& late = Best(samples.last(third));
  const int64_t change = late.offset_ns - early.offset_ns;
  if (std::abs(change) <= early.uncertainty_ns + late.uncertainty_ns) {
    return line;
  }
  line.at_ns = early.at_ns;
  line.offset_ns = early.offset_ns;
  line.drift =
      static_cast<double>(change) /
      static_cast<double>(std::max<int64_t>(late.at_ns - early.at_ns, 1));
  line.uncertainty_ns = std::min(early.uncertainty_ns, late.uncertainty_ns);
  return line;
}

}  // namespace gimbal::trace
