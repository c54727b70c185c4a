// Vector types of CUDA, with its alignments.
#pragma once

// GIMBAL_CUDA_VECTORS(float, float, 8, 16): float1 to float4, where pairs and
// quadruples are aligned as one access of that many bytes.
#define GIMBAL_CUDA_VECTORS(name, type, pair_align, quad_align)               \
  struct name##1 {                                                            \
    type x;                                                                   \
  };                                                                          \
  struct __attribute__((aligned(pair_align))) name##2 {                       \
    type x, y;                                                                \
  };                                                                          \
  struct name##3 {                                                            \
    type x, y, z;                                                             \
  };                                                                          \
  struct __attribute__((aligned(quad_align))) name##4 {                       \
    type x, y, z, w;                                                          \
  };                                                                          \
  inline name##1 make_##name##1(type x) { return {x}; }                       \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) {             \
    return {x, y, z, w};                                                      \
  }

GIMBAL_CUDA_VECTORS(char, signed char, 2, 4)
GIMBAL_CUDA_VECTORS(uchar, unsigned char, 2, 4)
GIMBAL_CUDA_VECTORS(short, short, 4, 8)
GIMBAL_CUDA_VECTORS(ushort, unsigned short, 4, 8)
GIMBAL_CUDA_VECTORS(int, int, 8, 16)
GIMBAL_CUDA_VECTORS(uint, unsigned int, 8, 16)
GIMBAL_CUDA_VECTORS(longlong, long long int, 16, 16)
GIMBAL_CUDA_VECTORS(ulonglong, unsigned long long int, 16, 16)
GIMBAL_CUDA_VECTORS(float, float, 8, 16)
GIMBAL_CUDA_VECTORS(double, double, 16, 16)

#undef GIMBAL_CUDA_VECTORS

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1)
      : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
