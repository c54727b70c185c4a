// cuSOLVER on LAPACK.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/cuda_host/device.h"
#include "tests/cuda_host/include/cusolverDn.h"
#include "tests/cuda_host/memory.h"
#include "tests/cuda_host/runtime.h"

// Fortran symbols of LAPACK, with the hidden lengths of character arguments.
extern "C" {
void sgeqrf_(const int* m, const int* n, float* a, const int* lda, float* tau,
             float* work, const int* lwork, int* info);
void sorgqr_(const int* m, const int* n, const int* k, float* a, const int* lda,
             const float* tau, float* work, const int* lwork, int* info);
void ssyevd_(const char* jobz, const char* uplo, const int* n, float* a,
             const int* lda, float* w, float* work, const int* lwork,
             int* iwork, const int* liwork, int* info, size_t, size_t);
void sgesvd_(const char* jobu, const char* jobvt, const int* m, const int* n,
             float* a, const int* lda, float* s, float* u, const int* ldu,
             float* vt, const int* ldvt, float* work, const int* lwork,
             int* info, size_t, size_t);
}

struct cusolverDnContext {
  cudaStream_t stream = nullptr;
};

using namespace gimbal::cuda_host;

namespace {

constexpr int kBlock = 32;  // columns that LAPACK takes at a time

// An array that a call reads or writes.
struct Array {
  const void* data = nullptr;
  int64_t elements = 0;  // of 4 bytes
  const char* name = "";
};

Array MatrixAt(const float* a, int rows, int cols, int ld, const char* name) {
  return {a, rows == 0 || cols == 0 ? 0 : int64_t{ld} * (cols - 1) + rows,
          name};
}

std::string Misplaced(const std::vector<Array>& arrays) {
  std::string wrong;
  for (const Array& array : arrays) {
    if (array.elements == 0 ||
        Memory::Get().IsDevice(array.data,
                               static_cast<size_t>(array.elements) * 4)) {
      continue;
    }
    wrong += std::string("cuSOLVER: ") + array.name +
             " does not lie whole in an allocation on the device. ";
  }
  return wrong;
}

template <typename Work>
cusolverStatus_t Enqueue(cusolverDnHandle_t handle, std::vector<Array> arrays,
                         Work work) {
  const auto run = [arrays = std::move(arrays), work] {
    std::string wrong = Misplaced(arrays);
    if (wrong.empty()) work();
    return wrong;
  };
  return Device::Get().Enqueue(handle->stream, OnceChecked(run)) == cudaSuccess
             ? CUSOLVER_STATUS_SUCCESS
             : CUSOLVER_STATUS_EXECUTION_FAILED;
}

// What ssyevd wants at least; with vectors.
int EigenWork(int n) { return 1 + 6 * n + 2 * n * n; }

}  // namespace

cusolverStatus_t cusolverGetVersion(int* version) {
  *version = 12000;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) {
  *handle = new cusolverDnContext;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle,
                                     cudaStream_t streamId) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  handle->stream = streamId;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSgeqrf_bufferSize(cusolverDnHandle_t handle, int m,
                                             int n, float* /*A*/, int lda,
                                             int* lwork) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || lda < m) return CUSOLVER_STATUS_INVALID_VALUE;
  *lwork = kBlock * std::max(1, n);
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSgeqrf(cusolverDnHandle_t handle, int m, int n,
                                  float* A, int lda, float* TAU,
                                  float* Workspace, int Lwork, int* devInfo) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || lda < m || Lwork < n) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  return Enqueue(
      handle,
      {MatrixAt(A, m, n, lda, "A"),
       {TAU, std::min(m, n), "TAU"},
       {Workspace, Lwork, "Workspace"},
       {devInfo, 1, "devInfo"}},
      [=] { sgeqrf_(&m, &n, A, &lda, TAU, Workspace, &Lwork, devInfo); });
}

cusolverStatus_t cusolverDnSorgqr_bufferSize(cusolverDnHandle_t handle, int m,
                                             int n, int k, const float* /*A*/,
                                             int lda, const float* /*tau*/,
                                             int* lwork) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (k < 0 || n < k || m < n || lda < m) return CUSOLVER_STATUS_INVALID_VALUE;
  *lwork = kBlock * std::max(1, n);
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSorgqr(cusolverDnHandle_t handle, int m, int n,
                                  int k, float* A, int lda, const float* tau,
                                  float* work, int lwork, int* info) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (k < 0 || n < k || m < n || lda < m || lwork < n) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  return Enqueue(
      handle,
      {MatrixAt(A, m, n, lda, "A"),
       {tau, k, "tau"},
       {work, lwork, "work"},
       {info, 1, "info"}},
      [=] { sorgqr_(&m, &n, &k, A, &lda, tau, work, &lwork, info); });
}

cusolverStatus_t cusolverDnSsyevd_bufferSize(cusolverDnHandle_t handle,
                                             cusolverEigMode_t jobz,
                                             cublasFillMode_t /*uplo*/, int n,
                                             const float* /*A*/, int lda,
                                             const float* /*W*/, int* lwork) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (jobz != CUSOLVER_EIG_MODE_VECTOR || n < 0 || lda < n) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  *lwork = EigenWork(n);
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSsyevd(cusolverDnHandle_t handle,
                                  cusolverEigMode_t jobz, cublasFillMode_t uplo,
                                  int n, float* A, int lda, float* W,
                                  float* work, int lwork, int* info) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (jobz != CUSOLVER_EIG_MODE_VECTOR || n < 0 || lda < n ||
      lwork < EigenWork(n)) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  return Enqueue(handle,
                 {MatrixAt(A, n, n, lda, "A"),
                  {W, n, "W"},
                  {work, lwork, "work"},
                  {info, 1, "info"}},
                 [=] {
                   std::vector<int> ints(static_cast<size_t>(3 + 5 * n));
                   const int size = static_cast<int>(ints.size());
                   ssyevd_("V", uplo == CUBLAS_FILL_MODE_UPPER ? "U" : "L", &n,
                           A, &lda, W, work, &lwork, ints.data(), &size, info,
                           1, 1);
                 });
}

cusolverStatus_t cusolverDnSgesvd_bufferSize(cusolverDnHandle_t handle, int m,
                                             int n, int* lwork) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (n < 0 || m < n) return CUSOLVER_STATUS_INVALID_VALUE;
  *lwork = std::max({1, 3 * n + m, 5 * n}) + kBlock * (m + n);
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSgesvd(cusolverDnHandle_t handle, signed char jobu,
                                  signed char jobvt, int m, int n, float* A,
                                  int lda, float* S, float* U, int ldu,
                                  float* VT, int ldvt, float* work, int lwork,
                                  float* /*rwork*/, int* info) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (jobu != 'A' || jobvt != 'A' || n < 0 || m < n || lda < m || ldu < m ||
      ldvt < n || lwork < std::max({1, 3 * n + m, 5 * n})) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  return Enqueue(handle,
                 {MatrixAt(A, m, n, lda, "A"),
                  {S, n, "S"},
                  MatrixAt(U, m, m, ldu, "U"),
                  MatrixAt(VT, n, n, ldvt, "VT"),
                  {work, lwork, "work"},
                  {info, 1, "info"}},
                 [=] {
                   sgesvd_("A", "A", &m, &n, A, &lda, S, U, &ldu, VT, &ldvt,
                           work, &lwork, info, 1, 1);
                 });
}
