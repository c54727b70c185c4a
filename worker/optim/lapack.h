// The symmetric products and factorisations that a basis needs, from OpenBLAS,
// for float and double.
//
// All matrices are row-major without gaps. A symmetric matrix is given by its
// lower triangle; the other one is neither read nor written. LAPACK is
// column-major, so what it calls columns are rows here: a basis is kept as a
// matrix whose rows are the basis vectors, and nothing is ever transposed.
//
// Nothing allocates; scratch comes from the caller. Thread-safe.
#pragma once

#include <cstdint>
#include <span>

namespace gimbal::worker {

// c = alpha a a^T + beta c, for a [n, k], c [n, n] symmetric.
template <typename T>
void SyrkRows(int64_t n, int64_t k, T alpha, const T* a, T beta, T* c);

// c = alpha a^T a + beta c, for a [k, n], c [n, n] symmetric.
template <typename T>
void SyrkColumns(int64_t n, int64_t k, T alpha, const T* a, T beta, T* c);

// y = x s, for x and y [n, n] and s [n, n] symmetric. y is neither x nor s.
template <typename T>
void SymmRight(int64_t n, const T* x, const T* s, T* y);

template <typename T>
T Dot(int64_t n, const T* a, const T* b);

// y = a x, or a^T x when transposed, for a [n, n].
template <typename T>
void TimesVector(bool transposed, int64_t n, const T* a, const T* x, T* y);

// Elements of scratch that EigenvectorRows needs.
template <typename T>
int64_t EigenScratchSize(int64_t n);
int64_t EigenIntScratchSize(int64_t n);

// Elements of scratch that SingularVectorRows needs for [rows, cols].
template <typename T>
int64_t SvdScratchSize(int64_t rows, int64_t cols);
int64_t SvdIntScratchSize(int64_t rows, int64_t cols);

// Replaces a [n, n], symmetric, by its eigenvectors as rows, by increasing
// eigenvalue. False when the iteration does not converge; `a` is lost then.
template <typename T>
bool EigenvectorRows(int64_t n, T* a, std::span<T> scratch,
                     std::span<int> int_scratch);

// Full singular value decomposition of a [rows, cols], which is lost: rows of
// `left` [rows, rows] and `right` [cols, cols] become its singular vectors, by
// decreasing singular value. False when the iteration does not converge.
template <typename T>
bool SingularVectorRows(int64_t rows, int64_t cols, T* a, T* left, T* right,
                        std::span<T> scratch, std::span<int> int_scratch);

}  // namespace gimbal::worker
