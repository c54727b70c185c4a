#include "coordinator/cli/plot_layout.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace gimbal::cli {
namespace {

double RoundStep(double rough) {
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power * 1.0001) return factor * power;
  }
  return 10 * power;
}

// Labels that touch and move as one block; `first`..`last` in sorted order.
struct Block {
  size_t first = 0;
  size_t last = 0;
  double centre = 0;
};

}  // namespace

std::vector<double> RoundTicks(double low, double high, int count) {
  const double step = RoundStep((high - low) / count);
  std::vector<double> ticks;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + step * 1e-9;
       i += 1) {
    ticks.push_back(i * step);
  }
  return ticks;
}

std::vector<double> SpreadLabels(std::span<const double> wanted, double gap,
                                 double top, double bottom) {
  std::vector<size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return wanted[a] < wanted[b]; });
  const auto place = [&](Block* block) {
    const double count = static_cast<double>(block->last - block->first + 1);
    double sum = 0;
    for (size_t i = block->first; i <= block->last; ++i) {
      sum += wanted[order[i]];
    }
    const double half = (count - 1) * gap / 2;
    block->centre = std::max(top + half, std::min(bottom - half, sum / count));
  };
  const auto half_height = [&](const Block& block) {
    return static_cast<double>(block.last - block.first) * gap / 2;
  };
  std::vector<Block> blocks;
  for (size_t i = 0; i < order.size(); ++i) {
    Block block{i, i, 0};
    place(&block);
    while (!blocks.empty() &&
           block.centre - half_height(block) <
               blocks.back().centre + half_height(blocks.back()) + gap) {
      block.first = blocks.back().first;
      blocks.pop_back();
      place(&block);
    }
    blocks.push_back(block);
  }
  std::vector<double> placed(wanted.size());
  for (const Block& block : blocks) {
    for (size_t i = block.first; i <= block.last; ++i) {
      placed[order[i]] = block.centre - half_height(block) +
                         static_cast<double>(i - block.first) * gap;
    }
  }
  return placed;
}

}  // namespace gimbal::cli
