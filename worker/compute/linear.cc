#include "worker/compute/linear.h"

#include "worker/compute/gemm.h"
#include "worker/compute/isa.h"

namespace gimbal::compute {

template <typename T>
void LinearForward(const LinearShape& shape, const T* x, const T* w,
                   const T* bias, const T* addend, T* y) {
  const bool filled = bias != nullptr || addend != nullptr;
  if (filled) {
    Kernels<BiasKernels<T>>().fill(shape.rows, shape.out, bias, addend, y);
  }
  Gemm<T>(Trans::kNo, Trans::kYes, shape.rows, shape.out, shape.in, 1, x,
          shape.in, w, shape.in, filled ? 1 : 0, y, shape.out);
}

template <typename T>
void LinearBackwardInput(const LinearShape& shape, const T* dy, const T* w,
                         T* dx) {
  Gemm<T>(Trans::kNo, Trans::kNo, shape.rows, shape.in, shape.out, 1, dy,
          shape.out, w, shape.in, 0, dx, shape.in);
}

template <typename T>
void LinearBackwardWeight(const LinearShape& shape, const T* dy, const T* x,
                          T* dw, T* dbias) {
  Gemm<T>(Trans::kYes, Trans::kNo, shape.out, shape.in, shape.rows, 1, dy,
          shape.out, x, shape.in, 1, dw, shape.in);
  if (dbias != nullptr) {
    Kernels<BiasKernels<T>>().column_sum(shape.rows, shape.out, dy, dbias);
  }
}

#define GIMBAL_INSTANTIATE(T)                                                  \
  template void LinearForward<T>(const LinearShape&, const T*, const T*,       \
                                 const T*, const T*, T*);                      \
  template void LinearBackwardInput<T>(const LinearShape&, const T*, const T*, \
                                       T*);                                    \
  template void LinearBackwardWeight<T>(const LinearShape&, const T*,          \
                                        const T*, T*, T*);
GIMBAL_INSTANTIATE(float)
GIMBAL_INSTANTIATE(double)
#undef GIMBAL_INSTANTIATE

}  // namespace gimbal::compute
