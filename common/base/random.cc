#include "common/base/random.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace gimbal::base {

std::array<uint32_t, 4> Philox(uint64_t seed, uint64_t stream,
                               uint64_t counter) {
  uint32_t k0 = static_cast<uint32_t>(seed);
  uint32_t k1 = static_cast<uint32_t>(seed >> 32);
  std::array<uint32_t, 4> x = {
      static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
      static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * x[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * x[2];
    x = {static_cast<uint32_t>(p1 >> 32) ^ x[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ x[3] ^ k1,
         static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return x;
}

uint64_t StreamOf(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

uint64_t RandomBits(uint64_t seed, uint64_t stream, uint64_t counter) {
  const auto x = Philox(seed, stream, counter);
  return (uint64_t{x[1]} << 32) | x[0];
}

double RandomNormal(uint64_t seed, uint64_t stream, uint64_t index) {
  const auto x = Philox(seed, stream, index / 2);
  // 53-bit u in (0, 1] keeps the logarithm finite.
  const uint64_t high = (uint64_t{x[1]} << 32) | x[0];
  const uint64_t low = (uint64_t{x[3]} << 32) | x[2];
  const double u = (static_cast<double>(high >> 11) + 1.0) * 0x1.0p-53;
  const double angle =
      2.0 * std::numbers::pi * static_cast<double>(low >> 11) * 0x1.0p-53;
  const double radius = std::sqrt(-2.0 * std::log(u));
  return radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

uint64_t RandomPermutation(uint64_t seed, uint64_t stream, uint64_t size,
                           uint64_t index) {
  if (size <= 1) return 0;
  // A permutation of [0, 4^half) that is applied until it lands below size; the
  // domain is less than four times as large, so that takes under four tries on
  // average.
  const int half = (std::bit_width(size - 1) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  uint64_t value = index;
  do {
    uint64_t left = value >> half;
    uint64_t right = value & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t mixed =
          RandomBits(seed, stream, (round << 60) ^ right) & mask;
      const uint64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    value = (left << half) | right;
  } while (value >= size);
  return value;
}

}  // namespace gimbal::base
