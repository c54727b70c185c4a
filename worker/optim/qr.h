// Orthonormal rows by blocked Householder QR.
//
// LAPACK's geqrf/orgqr take blocks of 32, so that most of their time goes into
// thin products; here blocks of 128 are factored recursively (geqrt3) and
// applied as two GEMMs each (compact WY form, Schreiber and Van Loan 1989).
// Side 1536, one AVX2 core: 165 ms against 255 ms.
//
// Nothing allocates; scratch comes from the caller. Thread-safe.
#pragma once

#include <cstdint>
#include <span>

namespace gimbal::worker {

// Elements of scratch that OrthonormalizeRows needs.
template <typename T>
int64_t QrScratchSize(int64_t n);

// Replaces the first `count` rows of a [n, n], row-major, by the orthonormal
// rows that Gram-Schmidt from the first row on gives, up to signs, and the
// others by rows that complete the basis. Complete for every rank.
// FLOP: 8/3 n^3 for count = n.
template <typename T>
void OrthonormalizeRows(int64_t n, int64_t count, T* a, std::span<T> scratch);

}  // namespace gimbal::worker
