// One YAML value -> one field of the config. Internal to common/config.
#pragma once

#include "absl/status/status.h"
#include "common/config/schema.h"

namespace YAML {
class Node;
}

namespace gimbal::config {

// Sets the key, replacing what it held. Type, bounds and choices are those of
// the schema. The error says what was found and what was expected, not where.
absl::Status SetValue(v1::RunConfig& config, const Key& key,
                      const YAML::Node& value);

// What a node is, for messages: "'abc'", "a list", "nothing".
std::string FoundText(const YAML::Node& node);

}  // namespace gimbal::config
