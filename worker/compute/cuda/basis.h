// What a refresh of bases does beside products and factorisations, as
// worker/optim/basis.h and worker/optim/basis_rotation.cc have it, for `count`
// matrices at once. A matrix lies `stride` elements behind the one before it.
// Asynchronous on the stream.
//
// A flag per matrix says whether its statistic is finite; where it is not, the
// old basis stays.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gimbal::compute::cuda {

// out [cols, rows] = a^T for a [rows, cols]. Bytes: 8 rows cols.
void Transpose(cudaStream_t stream, int64_t rows, int64_t cols, const float* a,
               float* out);

// finite[b] = whether elements 0, step, 2 step ... (n - 1) step of matrix b
// are. A block per matrix. Bytes: 4 n.
void FiniteFlags(cudaStream_t stream, int64_t count, int64_t n, int64_t step,
                 int64_t stride, const float* x, int* finite);

// The whole symmetric matrices of lower triangles [n, n]; the identity where
// the flag is 0. Bytes: 6 n^2.
void MirrorLower(cudaStream_t stream, int64_t count, int64_t n, int64_t stride,
                 const int* finite, const float* lower, float* whole);

// Replaces matrices of `size` elements by zeros where the flag is 0. Bytes: 4
// per flag, and 4 per element of those matrices.
void ZeroUnlessFinite(cudaStream_t stream, int64_t count, int64_t size,
                      int64_t stride, const int* finite, float* x);

// out[b, i] = a_i b_i for the `rows` rows of matrix b. A warp per row, in fp32.
// Bytes: 8 rows cols. FLOP: 2 rows cols.
void RowDots(cudaStream_t stream, int64_t count, int64_t rows, int64_t cols,
             int64_t stride, const float* a, const float* b, float* out);

// order[b, 0..n) = 0..n by decreasing keys[b], ties by index; what is not
// finite comes last. 0, 1, 2 ... where the flag is 0. Orders are
// `order_stride` elements apart. FLOP: n^2.
void RankDescending(cudaStream_t stream, int64_t count, int64_t n,
                    const int* finite, const float* keys, int64_t order_stride,
                    int* order);

// 0, 1, 2 ... n - 1. Bytes: 4 n.
void CountUp(cudaStream_t stream, int64_t count, int64_t n,
             int64_t order_stride, int* order);

// to[b, i] = from[b, order[b, i]], row by row. Bytes: 8 rows cols.
void GatherRows(cudaStream_t stream, int64_t count, int64_t rows, int64_t cols,
                int64_t order_stride, const int* order, int64_t from_stride,
                const float* from, int64_t to_stride, float* to);

// to[b, i, j] = from[b, of_row[i], of_col[j]], with `order` the rows' places
// and then the columns'. Bytes: 8 rows cols.
void PermuteBoth(cudaStream_t stream, int64_t count, int64_t rows, int64_t cols,
                 int64_t stride, int64_t order_stride, const int* order,
                 const float* from, float* to);

// health[b, 0] = max(health[b, 0], ||off-diagonal|| / ||A||), from the squared
// norms of A and its diagonal: diagonal[b, 0], [step], [2 step] ... . Left
// alone where the flag is 0; no flags: all are finite. A block per matrix.
// Bytes: 4 n. FLOP: 2 n, in fp64.
void OffdiagonalRatios(cudaStream_t stream, int64_t count, int64_t n,
                       int64_t step, int64_t stride, const int* finite,
                       const float* diagonal, const double* square_norms,
                       float* health);

// Bases [n, n] become `next` where the flag is 1; the identity where, besides,
// failed[b] is not 0 (null: none failed). `reversed`: next's last row comes
// first. Bytes: 8 n^2.
void SelectBases(cudaStream_t stream, int64_t count, int64_t n, int64_t stride,
                 const int* finite, const int* failed, bool reversed,
                 const float* next, float* bases);

// errors[b] = ||z_b - x|| / sqrt(n). Bytes: 8 n. FLOP: 3 n, in fp64.
void ProbeErrors(cudaStream_t stream, int64_t count, int64_t n, int64_t stride,
                 const float* z, const float* x, double* errors);

// health[2 b] = max(health[2 b], errors[b]). Bytes: 16 per matrix.
void RaiseHealth(cudaStream_t stream, int64_t count, const double* errors,
                 float* health);

// x <- x^2. Bytes: 8 n. FLOP: n.
void Square(cudaStream_t stream, int64_t n, float* x);

// fp16 storage of bases, rounded to nearest even. Bytes: 6 n.
void ToHalf(cudaStream_t stream, int64_t n, const float* x, uint16_t* out);
// Bytes: 6 n.
void FromHalf(cudaStream_t stream, int64_t n, const uint16_t* x, float* out);

}  // namespace gimbal::compute::cuda
