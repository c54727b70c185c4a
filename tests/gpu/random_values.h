// Values to compute on: products of zeros would run faster than those of a
// model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/random.h"

namespace gimbal::gpu {

// At most `n` normally distributed numbers, few enough to be made at once;
// arrays repeat them.
inline std::vector<float> RandomStretch(int64_t n) {
  constexpr int64_t kMost = 1 << 18;
  std::vector<float> values(static_cast<size_t>(std::min(n, kMost)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(base::RandomNormal(3, 0, i));
  }
  return values;
}

}  // namespace gimbal::gpu
