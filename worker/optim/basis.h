// Estimates the orthonormal basis of one side of a weight matrix from that
// side's gradient covariance (basis rotation, source `second`: arXiv
// 2602.03515).
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

// Elements of scratch that both functions below need for a side of n.
template <typename T>
int64_t BasisScratchSize(int64_t n);
int64_t BasisIntScratchSize(int64_t n);

// Sets `basis` to the eigenvectors of `covariance`, by decreasing eigenvalue.
template <typename T>
void ColdStartBasis(int64_t n, const T* covariance, T* basis,
                    std::span<T> scratch, std::span<int> int_scratch);

// One step of power iteration: e = diag(Q^T A Q), columns sorted by decreasing
// e, Q <- qr(A Q). `order[i]` is the old index of the vector that now is i;
// whatever is kept per basis vector has to move along.
// FLOP: 2 n^3 (product) + 8/3 n^3 (QR).
template <typename T>
void RefreshBasis(int64_t n, const T* covariance, T* basis,
                  std::span<T> scratch, std::span<int> order);

}  // namespace gimbal::worker
