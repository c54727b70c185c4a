// Token plus learned position embedding: y[b, t] = wte[token[b, t]] + wpe[t].
//
// Shapes: tokens [samples * context], wte [V, cols], wpe [context, cols],
// y [samples * context, cols]. Token ids are in [0, V).
// Parameter gradients are added to, in row order.
#pragma once

#include <cstdint>

namespace gimbal::compute {

template <typename T>
struct Embedding {
  void (*forward)(int64_t samples, int64_t context, int64_t cols,
                  const int32_t* tokens, const T* wte, const T* wpe, T* y);
  void (*backward)(int64_t samples, int64_t context, int64_t cols,
                   const int32_t* tokens, const T* dy, T* dwte, T* dwpe);
};

}  // namespace gimbal::compute
