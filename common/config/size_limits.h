// Products of a config's sizes that tensors and counters must be able to hold.
// Internal to common/config.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gimbal/v1/run_config.pb.h"

namespace gimbal::config {

struct BrokenLimit {
  std::string path;     // the key to blame
  std::string product;  // e.g. "microbatch * context"
  int64_t limit = 0;
};

// The first product above its limit. Requires positive sizes.
std::optional<BrokenLimit> FindBrokenLimit(const v1::RunConfig& config);

}  // namespace gimbal::config
