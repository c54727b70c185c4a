// When a stage refreshes its bases: a pure function of the update and the rules
// that hold for the stage.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace gimbal::worker {

// From update `from` on, one refresh per `period` updates; a fraction makes the
// gaps differ by one, so that a plan can spend its budget exactly. Refreshes of
// equal periods fall on the same updates at every stage: then the stages of a
// pipeline lose the time once, not one after the other.
struct RefreshRule {
  int64_t from = 1;
  double period = 1;  // at least 1
};

// True at update 1 (the cold start) and whenever update / period passes an
// integer, by the last rule whose `from` has come. `rules` by increasing
// `from`, the first one at most `update`.
inline bool RefreshDue(std::span<const RefreshRule> rules, int64_t update) {
  if (update == 1) return true;
  double period = 1;
  for (const RefreshRule& rule : rules) {
    if (rule.from <= update) period = rule.period;
  }
  const auto t = static_cast<double>(update);
  return std::floor(t / period) > std::floor((t - 1) / period);
}

}  // namespace gimbal::worker
