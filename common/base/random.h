// Counter-based random numbers: every value is a pure function of (seed,
// stream, counter), so nothing has to be saved or replayed. The generator is
// Philox 4x32 with 10 rounds (Salmon et al., SC 2011).
//
// Thread-safe (no state).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace gimbal::base {

// 128 random bits.
std::array<uint32_t, 4> Philox(uint64_t seed, uint64_t stream,
                               uint64_t counter);

// A stream number for a name, the same on every machine (FNV-1a, 64 bits).
uint64_t StreamOf(std::string_view name);

// Uniform 64 bits.
uint64_t RandomBits(uint64_t seed, uint64_t stream, uint64_t counter);

// Standard normal number `index` of the stream (Box-Muller; each counter gives
// two).
double RandomNormal(uint64_t seed, uint64_t stream, uint64_t index);

// Image of `index` under a random permutation of [0, size): a Feistel network
// with cycle walking, so no table is kept. Requires 0 <= index < size.
uint64_t RandomPermutation(uint64_t seed, uint64_t stream, uint64_t size,
                           uint64_t index);

}  // namespace gimbal::base
