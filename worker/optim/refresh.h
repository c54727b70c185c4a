// When a stage refreshes its bases: a pure function of the update and the rules
// that hold for the stage.
#pragma once

#include <algorithm>
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

// Updates 1 to `updates` for which RefreshDue holds, without a loop over them.
inline int64_t RefreshesDone(std::span<const RefreshRule> rules,
                             int64_t updates) {
  if (updates < 1) return 0;
  if (rules.empty()) return updates;
  int64_t count = 0;
  for (size_t i = 0; i < rules.size(); ++i) {
    const int64_t last = i + 1 < rules.size()
                             ? std::min(updates, rules[i + 1].from - 1)
                             : updates;
    if (last < rules[i].from) continue;
    const double period = rules[i].period;
    count += static_cast<int64_t>(
        std::floor(static_cast<double>(last) / period) -
        std::floor(static_cast<double>(rules[i].from - 1) / period));
  }
  const bool cold_start_counted = rules[0].from == 1 && rules[0].period <= 1;
  return cold_start_counted ? count : count + 1;
}

}  // namespace gimbal::worker
