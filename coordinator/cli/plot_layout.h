// Geometry of a plot, without any drawing. Pure functions.
#pragma once

#include <span>
#include <vector>

namespace gimbal::cli {

// Multiples of 1, 2 or 5 times a power of ten within [low, high], about
// `count` of them. Requires low < high and count >= 2.
std::vector<double> RoundTicks(double low, double high, int count);

// Moves label centres apart until neighbours are at least `gap` away from each
// other and all lie within [top, bottom] as far as they fit, each as little as
// can be. The order of `wanted` is kept in the result.
std::vector<double> SpreadLabels(std::span<const double> wanted, double gap,
                                 double top, double bottom);

}  // namespace gimbal::cli
