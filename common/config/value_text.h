// Values and expectations in words. Internal to common/config.
#pragma once

#include <string>

#include "common/config/schema.h"

namespace gimbal::config {

// The value of a key as YAML writes it, a list as [a, b]; strings as they are.
// Numbers have as many digits as it takes to read back the same value.
std::string ValueText(const v1::RunConfig& config, const Key& key);
// Element `index` of a list.
std::string ElementText(const v1::RunConfig& config, const Key& key, int index);

// The word that stands for an empty list ("auto"), or "" when the key has none.
std::string EmptyListWord(const Field& field);

// What the key takes, e.g. "an integer, at least 1" or "one of cosine, wsd".
std::string Expected(const Field& field);

}  // namespace gimbal::config
