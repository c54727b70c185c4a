// Text that may come from anywhere, made fit for messages and JSON.
#pragma once

#include <string>
#include <string_view>

namespace gimbal::base {

// True when the text is UTF-8: no stray, overlong or surrogate sequences.
bool IsValidUtf8(std::string_view text);

// The text with every byte that is not part of valid UTF-8 replaced by '?'.
std::string ValidUtf8(std::string_view text);

}  // namespace gimbal::base
