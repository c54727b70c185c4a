#include "worker/compute/cross_entropy.h"
#include "worker/compute/isa.h"
#include "worker/compute/vector_math.h"

namespace gimbal::compute {
namespace {

template <typename T>
double Forward(int64_t rows, int64_t vocab, const T* logits,
               const int32_t* targets, T* lse) {
  double loss = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const T* x = logits + row * vocab;
    const T max = Max(vocab, x);
    const T sum = Sum<T>(vocab, [=](int64_t j) { return Exp(x[j] - max); });
    const double log_sum = ::log(static_cast<double>(sum));
    lse[row] = static_cast<T>(max + log_sum);
    loss += log_sum - (static_cast<double>(x[targets[row]]) - max);
  }
  return loss;
}

template <typename T>
void Backward(int64_t rows, int64_t vocab, const int32_t* targets, const T* lse,
              T scale, T* logits_to_gradient) {
  for (int64_t row = 0; row < rows; ++row) {
    T* x = logits_to_gradient + row * vocab;
    const T shift = lse[row];
#pragma omp simd
    for (int64_t j = 0; j < vocab; ++j) x[j] = scale * Exp(x[j] - shift);
    x[targets[row]] -= scale;
  }
}

template <typename T>
constexpr CrossEntropy<T> kKernels = {Forward<T>, Backward<T>};

}  // namespace

template <>
const CrossEntropy<float>& Variant<CrossEntropy<float>, Isa::GIMBAL_ISA>() {
  return kKernels<float>;
}

template <>
const CrossEntropy<double>& Variant<CrossEntropy<double>, Isa::GIMBAL_ISA>() {
  return kKernels<double>;
}

}  // namespace gimbal::compute
