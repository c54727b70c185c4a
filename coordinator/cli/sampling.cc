#include "coordinator/cli/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace gimbal::cli {

int SampleToken(std::span<const float> logits, const Sampling& sampling,
                uint64_t random) {
  std::vector<int> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int a, int b) { return logits[a] > logits[b]; });
  if (sampling.temperature == 0) return ids.front();
  if (sampling.top_k > 0 && sampling.top_k < static_cast<int>(ids.size())) {
    ids.resize(sampling.top_k);
  }
  const double highest = logits[ids.front()];
  std::vector<double> below;  // cumulative weights
  double sum = 0;
  for (const int id : ids) {
    sum += std::exp((logits[id] - highest) / sampling.temperature);
    below.push_back(sum);
  }
  const double point = std::ldexp(static_cast<double>(random >> 11), -53) * sum;
  const auto chosen = std::upper_bound(below.begin(), below.end() - 1, point);
  return ids[chosen - below.begin()];
}

}  // namespace gimbal::cli
