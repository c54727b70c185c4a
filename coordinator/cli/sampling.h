// Chooses the next token from logits. Pure functions.
#pragma once

#include <cstdint>
#include <span>

namespace gimbal::cli {

struct Sampling {
  double temperature = 0.8;  // 0: always the likeliest token
  int top_k = 40;            // choose among the k likeliest; 0: among all
};

// `random`: 64 random bits. Among equal logits the lower id counts as likelier.
// Requires logits without NaN.
int SampleToken(std::span<const float> logits, const Sampling& sampling,
                uint64_t random);

}  // namespace gimbal::cli
