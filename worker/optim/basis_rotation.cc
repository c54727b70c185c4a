#include "worker/optim/basis_rotation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "worker/compute/gemm.h"
#include "worker/compute/isa.h"
#include "worker/optim/adamw.h"
#include "worker/optim/basis.h"
#include "worker/optim/kernels.h"
#include "worker/optim/lapack.h"

namespace gimbal::worker {
namespace {

using compute::Trans;

bool IsRotated(const Param& p) { return p.group == ParamGroup::kMatrix; }

template <typename T>
void SetIdentity(int64_t n, T* a) {
  std::fill_n(a, n * n, T{0});
  for (int64_t i = 0; i < n; ++i) a[i * n + i] = 1;
}

}  // namespace

template <typename T>
BasisRotation<T>::Sizes::Sizes(const ParameterTable& table)
    : moments(table.size()) {
  int64_t largest_matrix = 0;
  for (const Param& p : table.params()) {
    if (!IsRotated(p)) continue;
    sides += 2 * (p.rows * p.rows + p.cols * p.cols);
    largest_side = std::max({largest_side, p.rows, p.cols});
    largest_matrix = std::max(largest_matrix, p.size());
  }
  if (largest_side == 0) return;
  scratch = std::max(2 * largest_matrix, BasisScratchSize<T>(largest_side));
  int_scratch = BasisIntScratchSize(largest_side);
}

template <typename T>
int64_t BasisRotation<T>::Sizes::bytes() const {
  return (2 * moments + sides + scratch) * static_cast<int64_t>(sizeof(T)) +
         (int_scratch + 2 * largest_side) * static_cast<int64_t>(sizeof(int));
}

template <typename T>
BasisRotation<T>::BasisRotation(const OptimizerSpec& spec,
                                const ParameterTable& table)
    : spec_(spec),
      table_(table),
      sizes_(table),
      m_(sizes_.moments),
      v_(sizes_.moments),
      sides_(sizes_.sides),
      scratch_(sizes_.scratch),
      int_scratch_(sizes_.int_scratch),
      left_order_(sizes_.largest_side),
      right_order_(sizes_.largest_side) {
  T* next = sides_.data();
  const auto take = [&next](int64_t side) {
    return std::exchange(next, next + side * side);
  };
  for (const Param& p : table.params()) {
    if (!IsRotated(p)) continue;
    Matrix x{.param = &p, .m = m_.data() + p.offset, .v = v_.data() + p.offset};
    x.left_covariance = take(p.rows);
    x.right_covariance = take(p.cols);
    x.left_basis = take(p.rows);
    x.right_basis = take(p.cols);
    SetIdentity(p.rows, x.left_basis);
    SetIdentity(p.cols, x.right_basis);
    matrices_.push_back(x);
  }
}

template <typename T>
void BasisRotation<T>::Step(const StepContext& context, const T* old_weights,
                            const T* grads, T* new_weights) {
  const AdamWRule rule = AdamWRuleAt(spec_, context);
  const auto& kernels = compute::Kernels<OptimKernels<T>>();
  auto matrix = matrices_.begin();
  for (const Param& p : table_.params()) {
    const T* old_w = old_weights + p.offset;
    const T* grad = grads + p.offset;
    T* new_w = new_weights + p.offset;
    if (IsRotated(p)) {
      StepMatrix(context, *matrix++, old_w, grad, new_w);
    } else {
      kernels.adamw(p.size(), rule, old_w, grad, m_.data() + p.offset,
                    v_.data() + p.offset, new_w);
    }
  }
}

template <typename T>
void BasisRotation<T>::StepMatrix(const StepContext& context, const Matrix& x,
                                  const T* old_weights, const T* grad,
                                  T* new_weights) {
  UpdateCovariances(context.scale, x, grad);
  if (context.update == 1) {
    ColdStart(x);
  } else if (context.refresh) {
    Refresh(x);
  }
  const auto& kernels = compute::Kernels<OptimKernels<T>>();
  const int64_t n = x.param->size();
  const AdamWRule rule = AdamWRuleAt(spec_, context);
  T* direction = scratch_.data() + n;  // the first n are for the products
  ToRotated(x, static_cast<T>(context.scale), grad, direction);
  kernels.rotated_direction(n, rule.moments, direction, x.m, x.v);
  ToOriginal(x, direction, direction);
  // eps belongs to the root without bias correction, so the correction of the
  // root is a factor here.
  kernels.apply(n, rule.keep, rule.step * rule.root_correction, old_weights,
                direction, new_weights);
}

template <typename T>
void BasisRotation<T>::UpdateCovariances(double scale, const Matrix& x,
                                         const T* grad) {
  const auto [rows, cols] = std::pair(x.param->rows, x.param->cols);
  const T alpha = static_cast<T>((1 - spec_.beta2) * scale * scale);
  const T beta = static_cast<T>(spec_.beta2);
  SyrkRows(rows, cols, alpha, grad, beta, x.left_covariance);
  SyrkColumns(cols, rows, alpha, grad, beta, x.right_covariance);
}

template <typename T>
void BasisRotation<T>::ColdStart(const Matrix& x) {
  ColdStartBasis<T>(x.param->rows, x.left_covariance, x.left_basis, scratch_,
                    int_scratch_);
  ColdStartBasis<T>(x.param->cols, x.right_covariance, x.right_basis, scratch_,
                    int_scratch_);
}

template <typename T>
void BasisRotation<T>::Refresh(const Matrix& x) {
  const auto [rows, cols] = std::pair(x.param->rows, x.param->cols);
  ToOriginal(x, x.m, x.m);
  RefreshBasis<T>(rows, x.left_covariance, x.left_basis, scratch_,
                  std::span(left_order_).first(rows));
  RefreshBasis<T>(cols, x.right_covariance, x.right_basis, scratch_,
                  std::span(right_order_).first(cols));
  ToRotated(x, T{1}, x.m, x.m);
  PermuteSecondMoment(x);
}

template <typename T>
void BasisRotation<T>::PermuteSecondMoment(const Matrix& x) {
  const auto [rows, cols] = std::pair(x.param->rows, x.param->cols);
  const T* old_v = scratch_.data();
  std::copy_n(x.v, rows * cols, scratch_.data());
  for (int64_t i = 0; i < rows; ++i) {
    const T* source = old_v + left_order_[i] * cols;
    for (int64_t j = 0; j < cols; ++j) {
      x.v[i * cols + j] = source[right_order_[j]];
    }
  }
}

// The bases' rows are the columns of U and V: nothing is stored transposed.
template <typename T>
void BasisRotation<T>::ToRotated(const Matrix& x, T alpha, const T* in,
                                 T* out) {
  const auto [m, n] = std::pair(x.param->rows, x.param->cols);
  T* product = scratch_.data();
  compute::Gemm<T>(Trans::kNo, Trans::kYes, m, n, n, alpha, in, n,
                   x.right_basis, n, 0, product, n);
  compute::Gemm<T>(Trans::kNo, Trans::kNo, m, n, m, 1, x.left_basis, m, product,
                   n, 0, out, n);
}

template <typename T>
void BasisRotation<T>::ToOriginal(const Matrix& x, const T* in, T* out) {
  const auto [m, n] = std::pair(x.param->rows, x.param->cols);
  T* product = scratch_.data();
  compute::Gemm<T>(Trans::kNo, Trans::kNo, m, n, n, 1, in, n, x.right_basis, n,
                   0, product, n);
  compute::Gemm<T>(Trans::kYes, Trans::kNo, m, n, m, 1, x.left_basis, m,
                   product, n, 0, out, n);
}

template <typename T>
std::vector<StateTensor<T>> BasisRotation<T>::State() {
  std::vector<StateTensor<T>> state;
  auto matrix = matrices_.begin();
  for (const Param& p : table_.params()) {
    const auto add = [&](const char* suffix, int64_t rows, int64_t cols,
                         T* data) {
      state.push_back({p.name + suffix, p.layer, rows, cols, data});
    };
    add(".m", p.rows, p.cols, m_.data() + p.offset);
    add(".v", p.rows, p.cols, v_.data() + p.offset);
    if (!IsRotated(p)) continue;
    add(".L", p.rows, p.rows, matrix->left_covariance);
    add(".R", p.cols, p.cols, matrix->right_covariance);
    add(".U", p.rows, p.rows, matrix->left_basis);
    add(".V", p.cols, p.cols, matrix->right_basis);
    ++matrix;
  }
  return state;
}

template <typename T>
int64_t BasisRotation<T>::state_bytes() const {
  return sizes_.bytes();
}

template <typename T>
int64_t BasisRotation<T>::Bytes(const ParameterTable& table) {
  return Sizes(table).bytes();
}

template class BasisRotation<float>;
template class BasisRotation<double>;

}  // namespace gimbal::worker
