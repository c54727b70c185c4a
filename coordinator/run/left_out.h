// Minibatches that a guard leaves out: their updates change nothing.
#pragma once

#include <cstdint>
#include <string>

namespace gimbal::coordinator {

struct LeftOut {
  int64_t first = 1;  // update
  int64_t last = 0;   // and including it
  std::string kind;   // "nan" or "loss_spike", as metrics.jsonl shows it
  std::string reason;
  int64_t generation = 0;  // under which the trouble was seen

  bool covers(int64_t update) const {
    return first <= update && update <= last;
  }
  friend bool operator==(const LeftOut&, const LeftOut&) = default;
};

}  // namespace gimbal::coordinator
