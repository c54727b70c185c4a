// What an unknown key was probably meant to be. Internal to common/config.
#pragma once

#include <string>
#include <string_view>

namespace gimbal::config {

// What follows "unknown key; ": the same key in another section, else the
// nearest one ("did you mean optimizer.lr?"), else the keys that there are.
// `path` is the unknown key with its section.
std::string SuggestKey(std::string_view path);

// Smallest number of inserted, removed, replaced or swapped characters that
// turns a into b (optimal string alignment distance).
int EditDistance(std::string_view a, std::string_view b);

}  // namespace gimbal::config
