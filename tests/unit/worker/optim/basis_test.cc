#include "worker/optim/basis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace gimbal::worker {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Calls with scratch of exactly the size that is asked for.
void ColdStart(int64_t n, const std::vector<double>& covariance,
               std::vector<double>& basis) {
  std::vector<double> scratch(BasisScratchSize<double>(n));
  std::vector<int> ints(BasisIntScratchSize(n));
  ColdStartBasis<double>(n, covariance.data(), basis.data(), scratch, ints);
}

std::vector<int> Refresh(int64_t n, const std::vector<double>& covariance,
                         std::vector<double>& basis) {
  std::vector<double> scratch(BasisScratchSize<double>(n));
  std::vector<int> order(n);
  RefreshBasis<double>(n, covariance.data(), basis.data(), scratch, order);
  return order;
}

// Rows are unique up to their sign.
void ExpectSameRows(const std::vector<double>& a, const std::vector<double>& b,
                    int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    double dot = 0;
    for (int64_t j = 0; j < n; ++j) dot += a[i * n + j] * b[i * n + j];
    EXPECT_NEAR(std::abs(dot), 1, 1e-12) << "row " << i;
  }
}

const std::vector<double> kIdentity = {1, 0, 0, 0, 1, 0, 0, 0, 1};

TEST(ColdStartBasis, EigenvectorsByDecreasingEigenvalue) {
  // Eigenvalues 3, 1 of the first two axes, 2 of the third.
  const std::vector<double> covariance = {2, kNan, kNan, 1, 2, kNan, 0, 0, 2};
  std::vector<double> basis(9);
  ColdStart(3, covariance, basis);
  const double h = std::sqrt(0.5);
  ExpectSameRows(basis, {h, h, 0, 0, 0, 1, h, -h, 0}, 3);
}

TEST(ColdStartBasis, ZeroCovarianceGivesSomeBasis) {
  std::vector<double> basis(9);
  ColdStart(3, std::vector<double>(9), basis);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      double dot = 0;
      for (int k = 0; k < 3; ++k) dot += basis[i * 3 + k] * basis[j * 3 + k];
      EXPECT_NEAR(dot, i == j, 1e-14);
    }
  }
}

TEST(RefreshBasis, SortsAndTellsTheOrder) {
  const std::vector<double> covariance = {1, 0, 0, 0, 5, 0, 0, 0, 3};
  auto basis = kIdentity;
  EXPECT_EQ(Refresh(3, covariance, basis), (std::vector<int>{1, 2, 0}));
  ExpectSameRows(basis, {0, 1, 0, 0, 0, 1, 1, 0, 0}, 3);
}

TEST(RefreshBasis, TiesKeepTheirOrder) {
  auto basis = kIdentity;
  EXPECT_EQ(Refresh(3, kIdentity, basis), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(Refresh(3, std::vector<double>(9), basis),
            (std::vector<int>{0, 1, 2}));
}

TEST(RefreshBasis, IsOnePowerStep) {
  // A e1 = (2, 1, 0): the first vector is that direction, the second is A e2
  // made orthogonal to it.
  const std::vector<double> covariance = {2, 1, 0, 1, 1, 0, 0, 0, 0.5};
  auto basis = kIdentity;
  Refresh(3, covariance, basis);
  const double h = 1 / std::sqrt(5);
  ExpectSameRows(basis, {2 * h, h, 0, -h, 2 * h, 0, 0, 0, 1}, 3);
}

TEST(RefreshBasis, ConvergesToTheEigenvectors) {
  const std::vector<double> covariance = {4, 1, 0, 1, 3, 1, 0, 1, 1};
  auto basis = kIdentity, expected = kIdentity;
  for (int i = 0; i < 60; ++i) Refresh(3, covariance, basis);
  ColdStart(3, covariance, expected);
  ExpectSameRows(basis, expected, 3);
}

TEST(Basis, CovarianceThatIsNotFiniteChangesNothing) {
  for (double bad : {kNan, std::numeric_limits<double>::infinity()}) {
    const std::vector<double> covariance = {1, 0, 0, bad, bad, 0, 0, 0, 3};
    auto basis = kIdentity;
    EXPECT_EQ(Refresh(3, covariance, basis), (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(basis, kIdentity);
    ColdStart(3, covariance, basis);
    EXPECT_EQ(basis, kIdentity);
  }
}

}  // namespace
}  // namespace gimbal::worker
