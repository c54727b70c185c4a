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

PlainMatrix Identity(int64_t n) {
  PlainMatrix a(n, n);
  for (int64_t i = 0; i < n; ++i) a(i, i) = 1;
  return a;
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

RotationReference::RotationReference(const OptimizerSpec& spec, bool left,
                                     bool right, PlainMatrix initial)
    : weight(std::move(initial)),
      left_basis(Identity(weight.rows)),
      right_basis(Identity(weight.cols)),
      spec_(spec),
      left_(left),
      right_(right),
      left_covariance_(weight.rows, weight.rows),
      right_covariance_(weight.cols, weight.cols),
      m_(weight.rows, weight.cols),
      s_(weight.rows, weight.cols) {}

void RotationReference::Permute(const std::vector<int64_t>& order, bool left) {
  s_ = left ? Transposed(WithColumns(Transposed(s_), order))
            : WithColumns(s_, order);
}

void RotationReference::RefreshSide(const PlainMatrix& covariance, bool left) {
  PlainMatrix& basis = left ? left_basis : right_basis;
  const PlainMatrix product = Product(covariance, basis);
  const PlainMatrix rotated = Product(Transposed(basis), product);
  std::vector<double> e;
  for (int64_t i = 0; i < rotated.rows; ++i) e.push_back(rotated(i, i));
  const std::vector<int64_t> order = DescendingOrder(e);
  basis = Orthonormalized(WithColumns(product, order));
  Permute(order, left);
}

void RotationReference::RefreshFromMoment() {
  const PlainMatrix of_left = Product(m_, right_basis);
  const PlainMatrix of_right = Product(Transposed(m_), left_basis);
  for (const bool left : {true, false}) {
    const PlainMatrix& product = left ? of_left : of_right;
    std::vector<double> norms(product.cols);
    for (int64_t i = 0; i < product.rows; ++i) {
      for (int64_t j = 0; j < product.cols; ++j) {
        norms[j] += product(i, j) * product(i, j);
      }
    }
    const std::vector<int64_t> order = DescendingOrder(norms);
    (left ? left_basis : right_basis) =
        Orthonormalized(WithColumns(product, order));
    // The order is that of the columns of the basis multiplied with.
    Permute(order, !left);
  }
}

void RotationReference::ColdStart(const PlainMatrix& left_square,
                                  const PlainMatrix& right_square) {
  if (left_) left_basis = Eigenvectors(left_square);
  if (right_) right_basis = Eigenvectors(right_square);
}

void RotationReference::Refresh(const PlainMatrix& left_square,
                                const PlainMatrix& right_square) {
  if (spec_.rotation.source == RotationSource::kFirst && left_ && right_) {
    RefreshFromMoment();
    return;
  }
  if (left_) RefreshSide(left_square, /*left=*/true);
  if (right_) RefreshSide(right_square, /*left=*/false);
}

double RotationReference::Mu(int64_t t) const {
  return spec_.beta1 *
         (1 - 0.5 * std::pow(0.96, 0.004 * static_cast<double>(t)));
}

void RotationReference::Step(const StepContext<double>& context,
                             const PlainMatrix& gradient) {
  PlainMatrix g = gradient;
  for (double& x : g.data) x *= context.scale;
  Average(spec_.beta2, Product(g, Transposed(g)), left_covariance_);
  Average(spec_.beta2, Product(Transposed(g), g), right_covariance_);
  Average(spec_.beta1, g, m_);
  const bool first = spec_.rotation.source == RotationSource::kFirst;
  const PlainMatrix left_square =
      first ? Product(m_, Transposed(m_)) : left_covariance_;
  const PlainMatrix right_square =
      first ? Product(Transposed(m_), m_) : right_covariance_;
  if (context.update == 1) {
    ColdStart(left_square, right_square);
  } else if (context.refresh) {
    Refresh(left_square, right_square);
  }
  const PlainMatrix left = Transposed(left_basis);
  const PlainMatrix g_rotated = Product(Product(left, g), right_basis);
  const PlainMatrix m_rotated = Product(Product(left, m_), right_basis);
  PlainMatrix squares = g_rotated;
  for (double& x : squares.data) x *= x;
  Average(spec_.beta2, squares, s_);
  const double t = static_cast<double>(context.update);
  const double root = std::sqrt(1 - std::pow(spec_.beta2, t));
  PlainMatrix direction(weight.rows, weight.cols);
  double product = 1;
  for (int64_t i = 1; i <= context.update; ++i) product *= Mu(i);
  const double mu = Mu(context.update), next = Mu(context.update + 1);
  for (size_t i = 0; i < s_.data.size(); ++i) {
    if (spec_.nesterov) {
      direction.data[i] = (m_rotated.data[i] * next / (1 - product * next) +
                           g_rotated.data[i] * (1 - mu) / (1 - product)) /
                          (std::sqrt(s_.data[i]) / root + spec_.eps);
    } else {
      direction.data[i] = m_rotated.data[i] / (1 - std::pow(spec_.beta1, t)) *
                          root / (std::sqrt(s_.data[i]) + spec_.eps);
    }
  }
  direction = Product(Product(left_basis, direction), Transposed(right_basis));
  for (size_t i = 0; i < weight.data.size(); ++i) {
    weight.data[i] *= 1 - context.lr * spec_.weight_decay;
    weight.data[i] -= context.lr * direction.data[i];
  }
}

}  // namespace gimbal::worker
