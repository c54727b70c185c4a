// What peers prove to each other with: random bytes, HMAC-SHA256, comparison
// that takes the same time wherever the difference is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gimbal::net {

constexpr size_t kSecretBytes = 32;

// Fit for keys and nonces.
std::string RandomBytes(size_t bytes);
// 32 bytes.
std::string HmacSha256(std::string_view key, std::string_view data);
bool SameSecret(std::string_view a, std::string_view b);

}  // namespace gimbal::net
