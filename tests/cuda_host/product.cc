#include "tests/cuda_host/product.h"

#include <cblas.h>

#include <bit>
#include <cmath>
#include <vector>

#include "tests/cuda_host/include/cuda_bf16.h"
#include "tests/cuda_host/memory.h"

namespace gimbal::cuda_host {
namespace {

float Load(const void* data, cudaDataType type, int64_t i) {
  return type == CUDA_R_32F ? static_cast<const float*>(data)[i]
                            : float{static_cast<const __nv_bfloat16*>(data)[i]};
}

void Store(void* data, cudaDataType type, int64_t i, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[i] = value;
  } else {
    static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(value);
  }
}

const void* Elements(const Matrix& matrix, int64_t batch) {
  return static_cast<const char*>(matrix.data) +
         static_cast<size_t>(batch * matrix.stride) * matrix.element_bytes();
}

// To nearest with 10 bits behind the point; ties to even.
float RoundToTf32(float value) {
  if (!std::isfinite(value)) return value;
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu);
}

float RoundFor(cublasComputeType_t compute, float value) {
  switch (compute) {
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return RoundToTf32(value);
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      return __float2bfloat16_rn(value);
    default:
      return value;
  }
}

bool IsExact(cublasComputeType_t compute) {
  return compute == CUBLAS_COMPUTE_32F ||
         compute == CUBLAS_COMPUTE_32F_PEDANTIC;
}

// A factor as floats, where it lies if it is of floats that are not rounded.
class Factor {
 public:
  Factor(const Matrix& matrix, int64_t batch, cublasComputeType_t compute)
      : data_(static_cast<const float*>(Elements(matrix, batch))),
        ld_(matrix.ld) {
    if (matrix.type == CUDA_R_32F && IsExact(compute)) return;
    const void* const from = Elements(matrix, batch);
    copy_.resize(static_cast<size_t>(matrix.rows * matrix.cols));
    for (int64_t col = 0; col < matrix.cols; ++col) {
      for (int64_t row = 0; row < matrix.rows; ++row) {
        copy_[static_cast<size_t>(col * matrix.rows + row)] =
            RoundFor(compute, Load(from, matrix.type, col * matrix.ld + row));
      }
    }
    data_ = copy_.data();
    ld_ = matrix.rows;
  }

  const float* data() const { return data_; }
  int ld() const { return static_cast<int>(ld_); }

 private:
  std::vector<float> copy_;
  const float* data_;
  int64_t ld_;
};

// alpha op(A) op(B) as floats, m x n.
std::vector<float> Multiply(const Product& product, int64_t batch) {
  const Factor a(product.a, batch, product.compute);
  const Factor b(product.b, batch, product.compute);
  const int64_t m = product.d.rows, n = product.d.cols;
  const int64_t k = product.trans_a ? product.a.rows : product.a.cols;
  std::vector<float> result(static_cast<size_t>(m * n), 0.0f);
  if (m == 0 || n == 0 || k == 0) return result;
  cblas_sgemm(CblasColMajor, product.trans_a ? CblasTrans : CblasNoTrans,
              product.trans_b ? CblasTrans : CblasNoTrans, static_cast<int>(m),
              static_cast<int>(n), static_cast<int>(k), product.alpha, a.data(),
              a.ld(), b.data(), b.ld(), 0, result.data(), static_cast<int>(m));
  return result;
}

void ExecuteOne(const Product& product, int64_t batch) {
  const std::vector<float> result = Multiply(product, batch);
  const Bias& bias = product.bias;
  const Matrix& d = product.d;
  const void* const c = Elements(product.c, batch);
  void* const to = const_cast<void*>(Elements(d, batch));
  for (int64_t col = 0; col < d.cols; ++col) {
    for (int64_t row = 0; row < d.rows; ++row) {
      float value = result[static_cast<size_t>(col * d.rows + row)];
      // Without beta, C may be anything.
      if (product.beta != 0) {
        value +=
            product.beta * Load(c, product.c.type, col * product.c.ld + row);
      }
      if (bias.data != nullptr) {
        value += Load(bias.data, bias.type, batch * bias.stride + row);
      }
      Store(to, d.type, col * d.ld + row, value);
    }
  }
}

std::string CheckPlaces(const Product& product) {
  std::string wrong = CheckPlace(product.a, product.batch, "A");
  wrong += CheckPlace(product.b, product.batch, "B");
  wrong += CheckPlace(product.d, product.batch, "D");
  if (product.beta != 0) wrong += CheckPlace(product.c, product.batch, "C");
  const Bias& bias = product.bias;
  if (bias.data == nullptr) return wrong;
  const Matrix vector = {const_cast<void*>(bias.data),
                         bias.type,
                         product.d.rows,
                         1,
                         product.d.rows,
                         bias.stride};
  return wrong + CheckPlace(vector, product.batch, "the bias");
}

bool IsSupported(const Matrix& matrix) {
  return matrix.type == CUDA_R_32F || matrix.type == CUDA_R_16BF;
}

}  // namespace

std::string CheckPlace(const Matrix& matrix, int64_t batch, const char* name) {
  if (matrix.rows == 0 || matrix.cols == 0) return {};
  const int64_t elements =
      (batch - 1) * matrix.stride + (matrix.cols - 1) * matrix.ld + matrix.rows;
  if (Memory::Get().IsDevice(matrix.data, static_cast<size_t>(elements) *
                                              matrix.element_bytes())) {
    return {};
  }
  return std::string("cuBLAS: ") + name +
         " does not lie whole in an allocation on the device. ";
}

cublasStatus_t Check(const Product& product) {
  const Matrix& a = product.a;
  const Matrix& b = product.b;
  const Matrix& d = product.d;
  for (const Matrix* matrix : {&a, &b, &product.c, &d}) {
    if (!IsSupported(*matrix)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (matrix->rows < 0 || matrix->cols < 0 || matrix->ld < matrix->rows) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  const int64_t k = product.trans_a ? a.rows : a.cols;
  if ((product.trans_a ? a.cols : a.rows) != d.rows ||
      (product.trans_b ? b.cols : b.rows) != k ||
      (product.trans_b ? b.rows : b.cols) != d.cols ||
      product.c.rows != d.rows || product.c.cols != d.cols ||
      product.batch < 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  // As in cuBLAS: both factors of one type, C and D of one type.
  if (a.type != b.type || product.c.type != d.type ||
      (a.type == CUDA_R_32F && d.type != CUDA_R_32F)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

std::string Execute(const Product& product) {
  if (std::string wrong = CheckPlaces(product); !wrong.empty()) return wrong;
  for (int64_t batch = 0; batch < product.batch; ++batch) {
    ExecuteOne(product, batch);
  }
  return {};
}

std::string Execute(const SymmetricProduct& product) {
  std::string wrong = CheckPlace(product.a, 1, "A");
  wrong += CheckPlace(product.c, 1, "C");
  if (!wrong.empty()) return wrong;
  const Matrix& a = product.a;
  cblas_ssyrk(CblasColMajor, product.upper ? CblasUpper : CblasLower,
              product.trans ? CblasTrans : CblasNoTrans,
              static_cast<int>(product.c.rows),
              static_cast<int>(product.trans ? a.rows : a.cols), product.alpha,
              static_cast<const float*>(a.data), static_cast<int>(a.ld),
              product.beta, static_cast<float*>(product.c.data),
              static_cast<int>(product.c.ld));
  return {};
}

}  // namespace gimbal::cuda_host
