// The part of cuSOLVER that the project uses, on the host's LAPACK. Matrices,
// work and results lie on the device; work runs in the handle's stream.
#pragma once

#include "cublas_api.h"
#include "cuda_runtime_api.h"

typedef enum {
  CUSOLVER_STATUS_SUCCESS = 0,
  CUSOLVER_STATUS_NOT_INITIALIZED = 1,
  CUSOLVER_STATUS_ALLOC_FAILED = 2,
  CUSOLVER_STATUS_INVALID_VALUE = 3,
  CUSOLVER_STATUS_EXECUTION_FAILED = 6,
  CUSOLVER_STATUS_INTERNAL_ERROR = 7,
} cusolverStatus_t;

typedef enum {
  CUSOLVER_EIG_MODE_NOVECTOR = 0,
  CUSOLVER_EIG_MODE_VECTOR = 1,
} cusolverEigMode_t;

typedef struct cusolverDnContext* cusolverDnHandle_t;

extern "C" {

cusolverStatus_t cusolverGetVersion(int* version);
cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle);
cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle);
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle,
                                     cudaStream_t streamId);

cusolverStatus_t cusolverDnSgeqrf_bufferSize(cusolverDnHandle_t handle, int m,
                                             int n, float* A, int lda,
                                             int* lwork);
cusolverStatus_t cusolverDnSgeqrf(cusolverDnHandle_t handle, int m, int n,
                                  float* A, int lda, float* TAU,
                                  float* Workspace, int Lwork, int* devInfo);
cusolverStatus_t cusolverDnSorgqr_bufferSize(cusolverDnHandle_t handle, int m,
                                             int n, int k, const float* A,
                                             int lda, const float* tau,
                                             int* lwork);
cusolverStatus_t cusolverDnSorgqr(cusolverDnHandle_t handle, int m, int n,
                                  int k, float* A, int lda, const float* tau,
                                  float* work, int lwork, int* info);

// Eigenvalues in ascending order, eigenvectors as columns of A.
cusolverStatus_t cusolverDnSsyevd_bufferSize(cusolverDnHandle_t handle,
                                             cusolverEigMode_t jobz,
                                             cublasFillMode_t uplo, int n,
                                             const float* A, int lda,
                                             const float* W, int* lwork);
cusolverStatus_t cusolverDnSsyevd(cusolverDnHandle_t handle,
                                  cusolverEigMode_t jobz, cublasFillMode_t uplo,
                                  int n, float* A, int lda, float* W,
                                  float* work, int lwork, int* info);

// As the real one, for m >= n alone.
cusolverStatus_t cusolverDnSgesvd_bufferSize(cusolverDnHandle_t handle, int m,
                                             int n, int* lwork);
cusolverStatus_t cusolverDnSgesvd(cusolverDnHandle_t handle, signed char jobu,
                                  signed char jobvt, int m, int n, float* A,
                                  int lda, float* S, float* U, int ldu,
                                  float* VT, int ldvt, float* work, int lwork,
                                  float* rwork, int* info);

}  // extern "C"
