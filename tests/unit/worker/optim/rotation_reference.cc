#include "tests/unit/worker/optim/rotation_reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace gimbal::worker {
namespace {

// a <- beta a + (1 - beta) b
void Average(double beta, const PlainMatrix& b, PlainMatrix& a) {
  for (size_t i = 0; i < a.data.size(); ++i) {
    a.data[i] = beta * a.data[i] + (1 - beta) * b.data[i];
  }
}

std::vector<int64_t> DescendingOrder(const std::vector<double>& keys) {
  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return keys[a] > keys[b]; });
  return order;
}

PlainMatrix WithColumns(const PlainMatrix& a,
                        const std::vector<int64_t>& order) {
  PlainMatrix result(a.rows, a.cols);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.cols; ++j) result(i, j) = a(i, order[j]);
  }
  return result;
}

// One Jacobi rotation of rows and columns p, q that makes a(p, q) zero.
void Rotate(int64_t p, int64_t q, PlainMatrix& a, PlainMatrix& vectors) {
  if (a(p, q) == 0) return;
  const double angle = 0.5 * std::atan2(2 * a(p, q), a(q, q) - a(p, p));
  const double c = std::cos(angle), s = std::sin(angle);
  for (int64_t k = 0; k < a.rows; ++k) {
    const double x = a(k, p), y = a(k, q);
    a(k, p) = c * x - s * y;
    a(k, q) = s * x + c * y;
    const double vx = vectors(k, p), vy = vectors(k, q);
    vectors(k, p) = c * vx - s * vy;
    vectors(k, q) = s * vx + c * vy;
  }
  for (int64_t k = 0; k < a.rows; ++k) {
    const double x = a(p, k), y = a(q, k);
    a(p, k) = c * x - s * y;
    a(q, k) = s * x + c * y;
  }
}

}  // namespace

PlainMatrix Transposed(const PlainMatrix& a) {
  PlainMatrix result(a.cols, a.rows);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.cols; ++j) result(j, i) = a(i, j);
  }
  return result;
}

PlainMatrix Product(const PlainMatrix& a, const PlainMatrix& b) {
  PlainMatrix result(a.rows, b.cols);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < b.cols; ++j) {
      for (int64_t k = 0; k < a.cols; ++k) result(i, j) += a(i, k) * b(k, j);
    }
  }
  return result;
}

PlainMatrix Eigenvectors(PlainMatrix a) {
  PlainMatrix vectors(a.rows, a.rows);
  for (int64_t i = 0; i < a.rows; ++i) vectors(i, i) = 1;
  for (int sweep = 0; sweep < 30; ++sweep) {
    for (int64_t p = 0; p < a.rows; ++p) {
      for (int64_t q = p + 1; q < a.rows; ++q) Rotate(p, q, a, vectors);
    }
  }
  std::vector<double> eigenvalues;
  for (int64_t i = 0; i < a.rows; ++i) eigenvalues.push_back(a(i, i));
  return WithColumns(vectors, DescendingOrder(eigenvalues));
}

PlainMatrix Orthonormalized(PlainMatrix a) {
  for (int64_t j = 0; j < a.cols; ++j) {
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t k = 0; k < j; ++k) {
        double dot = 0;
        for (int64_t i = 0; i < a.rows; ++i) dot += a(i, j) * a(i, k);
        for (int64_t i = 0; i < a.rows; ++i) a(i, j) -= dot * a(i, k);
      }
    }
    double square = 0;
    for (int64_t i = 0; i < a.rows; ++i) square += a(i, j) * a(i, j);
    for (int64_t i = 0; i < a.rows; ++i) a(i, j) /= std::sqrt(square);
  }
  return a;
}

RotationReference::RotationReference(const OptimizerSpec& spec,
                                     PlainMatrix initial)
    : weight(std::move(initial)),
      spec_(spec),
      left_covariance_(weight.rows, weight.rows),
      right_covariance_(weight.cols, weight.cols),
      m_(weight.rows, weight.cols),
      s_(weight.rows, weight.cols) {}

void RotationReference::RefreshSide(const PlainMatrix& covariance, bool left) {
  PlainMatrix& basis = left ? left_basis : right_basis;
  const PlainMatrix product = Product(covariance, basis);
  const PlainMatrix rotated = Product(Transposed(basis), product);
  std::vector<double> e;
  for (int64_t i = 0; i < rotated.rows; ++i) e.push_back(rotated(i, i));
  const std::vector<int64_t> order = DescendingOrder(e);
  basis = Orthonormalized(WithColumns(product, order));
  s_ = left ? Transposed(WithColumns(Transposed(s_), order))
            : WithColumns(s_, order);
}

void RotationReference::Step(const StepContext& context,
                             const PlainMatrix& gradient) {
  PlainMatrix g = gradient;
  for (double& x : g.data) x *= context.scale;
  Average(spec_.beta2, Product(g, Transposed(g)), left_covariance_);
  Average(spec_.beta2, Product(Transposed(g), g), right_covariance_);
  if (context.update == 1) {
    left_basis = Eigenvectors(left_covariance_);
    right_basis = Eigenvectors(right_covariance_);
  } else if (context.refresh) {
    RefreshSide(left_covariance_, /*left=*/true);
    RefreshSide(right_covariance_, /*left=*/false);
  }
  Average(spec_.beta1, g, m_);
  const PlainMatrix left = Transposed(left_basis);
  PlainMatrix g_rotated = Product(Product(left, g), right_basis);
  PlainMatrix direction = Product(Product(left, m_), right_basis);
  for (double& x : g_rotated.data) x *= x;
  Average(spec_.beta2, g_rotated, s_);
  for (size_t i = 0; i < s_.data.size(); ++i) {
    direction.data[i] /= std::sqrt(s_.data[i]) + spec_.eps;
  }
  direction = Product(Product(left_basis, direction), Transposed(right_basis));
  const double t = static_cast<double>(context.update);
  const double step = context.lr * std::sqrt(1 - std::pow(spec_.beta2, t)) /
                      (1 - std::pow(spec_.beta1, t));
  for (size_t i = 0; i < weight.data.size(); ++i) {
    weight.data[i] *= 1 - context.lr * spec_.weight_decay;
    weight.data[i] -= step * direction.data[i];
  }
}

}  // namespace gimbal::worker
