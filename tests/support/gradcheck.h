// Checks of numeric ops: gradients against central finite differences in double
// precision, and one precision or instruction set against another.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/random.h"

namespace gimbal::testing {

// Standard normal numbers, a pure function of (n, name), in the precision asked
// for; the float values are the rounded double ones.
template <typename T>
std::vector<T> RandomValues(int64_t n, std::string_view name) {
  std::vector<T> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    values[static_cast<size_t>(i)] = static_cast<T>(static_cast<float>(
        base::RandomNormal(1, base::StreamOf(name), static_cast<uint64_t>(i))));
  }
  return values;
}

template <typename T>
double Dot(const std::vector<T>& a, const std::vector<T>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

template <typename T>
double LargestEntry(const std::vector<T>& values) {
  double largest = 0;
  for (const T v : values) {
    largest = std::max(largest, std::abs(static_cast<double>(v)));
  }
  return largest;
}

// Compares `gradient` with central differences of `loss`, a function of the
// current content of `x`, entry by entry, relative to the largest entry.
inline void ExpectGradient(const std::string& what, std::vector<double>& x,
                           const std::vector<double>& gradient,
                           const std::function<double()>& loss,
                           double tolerance = 1e-7) {
  ASSERT_EQ(x.size(), gradient.size()) << what;
  constexpr double kStep = 1e-5;
  const double allowed = tolerance * std::max(LargestEntry(gradient), 1e-3);
  for (size_t i = 0; i < x.size(); ++i) {
    const double saved = x[i];
    x[i] = saved + kStep;
    const double above = loss();
    x[i] = saved - kStep;
    const double below = loss();
    x[i] = saved;
    ASSERT_NEAR(gradient[i], (above - below) / (2 * kStep), allowed)
        << what << "[" << i << "]";
  }
}

// Every entry of `got` within tolerance * the largest entry of `want`.
template <typename T, typename U>
void ExpectClose(const std::string& what, const std::vector<T>& got,
                 const std::vector<U>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size()) << what;
  const double allowed = tolerance * LargestEntry(want);
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(got[i]), static_cast<double>(want[i]),
                allowed)
        << what << "[" << i << "]";
  }
}

}  // namespace gimbal::testing
