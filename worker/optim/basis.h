// Estimates the orthonormal bases of basis rotation (arXiv 2602.03515, section
// on basis estimation): of one side of a weight matrix from a symmetric
// statistic of that side, or of both sides from one matrix.
//
// A basis is a square row-major matrix whose rows are the basis vectors, so Q
// of the paper is its transpose. A covariance is given by its lower triangle.
// Bases are unique up to signs, and up to a rotation within a degenerate
// eigenspace; optimizer updates do not depend on the signs.
//
// A covariance that is not finite leaves the basis as it is: bad gradients are
// handled by the run's guards, and must not hang or break LAPACK.
//
// Nothing allocates. Thread-safe for distinct arguments.
#pragma once

#include <cstdint>
#include <span>

namespace gimbal::worker {

// Elements of scratch that ColdStartBasis, RefreshBasis and OrthogonalityError
// need for a side of n.
template <typename T>
int64_t BasisScratchSize(int64_t n);
int64_t BasisIntScratchSize(int64_t n);

// Sets `basis` to the eigenvectors of `covariance`, by decreasing eigenvalue.
template <typename T>
void ColdStartBasis(int64_t n, const T* covariance, T* basis,
                    std::span<T> scratch, std::span<int> int_scratch);

// One step of power iteration: e = diag(Q^T A Q), columns sorted by decreasing
// e, Q <- qr(A Q). `order[i]` is the old index of the vector that now is i;
// whatever is kept per basis vector has to move along. Returns the off-diagonal
// ratio ||offdiag(Q^T A Q)||_F / ||A||_F of the old basis, 0 for A = 0 (from
// the norm and e, so values below about 1e-3 are rounding). FLOP: 2 n^3
// (product) + 8/3 n^3 (QR).
template <typename T>
double RefreshBasis(int64_t n, const T* covariance, T* basis,
                    std::span<T> scratch, std::span<int> order);

// ||Q Q^T x - x|| / ||x|| for one fixed x of random signs: an estimate of
// ||Q^T Q - I||_F / sqrt(n) from 4 n^2 FLOP.
template <typename T>
double OrthogonalityError(int64_t n, const T* basis, std::span<T> scratch);

// Elements of scratch that the two functions below need.
template <typename T>
int64_t PairScratchSize(int64_t rows, int64_t cols);
int64_t PairIntScratchSize(int64_t rows, int64_t cols);

// Both bases of `moment` [rows, cols]: its singular vectors.
template <typename T>
void ColdStartPair(int64_t rows, int64_t cols, const T* moment, T* left,
                   T* right, std::span<T> scratch, std::span<int> int_scratch);

// One step of alternating power iteration, both sides from the old other side:
// U <- qr(M V), V <- qr(M^T U), the first min(rows, cols) columns sorted by
// decreasing norm, the rest of the larger basis completed. `right_order` is the
// order of the columns of M V, so it says where the old columns of V went, and
// `left_order` likewise for U (the completion keeps its places).
template <typename T>
void RefreshPair(int64_t rows, int64_t cols, const T* moment, T* left, T* right,
                 std::span<T> scratch, std::span<int> left_order,
                 std::span<int> right_order);

}  // namespace gimbal::worker
