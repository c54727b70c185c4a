// cuBLAS and cuBLASLt: products against sums written out, and their place in
// the stream.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/cuda_host/device.h"
#include "tests/cuda_host/test/device_memory.h"

namespace gimbal::cuda_host {
namespace {

std::vector<float> Draw(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

float Rounded(float value) { return __float2bfloat16_rn(value); }

struct Shape {
  bool trans_a, trans_b;
  int m, n, k, extra;  // Leading dimensions are longer by `extra`.
};

int Lda(const Shape& s) { return (s.trans_a ? s.k : s.m) + s.extra; }
int Ldb(const Shape& s) { return (s.trans_b ? s.n : s.k) + s.extra; }
int Ldc(const Shape& s) { return s.m + s.extra; }
size_t SizeA(const Shape& s) {
  return static_cast<size_t>(Lda(s) * (s.trans_a ? s.m : s.k));
}
size_t SizeB(const Shape& s) {
  return static_cast<size_t>(Ldb(s) * (s.trans_b ? s.k : s.n));
}
size_t SizeC(const Shape& s) { return static_cast<size_t>(Ldc(s) * s.n); }

// alpha op(A) op(B) + beta C + bias where C is, in double precision.
std::vector<float> Expected(const Shape& s, const float* a, const float* b,
                            std::vector<float> c, float alpha, float beta,
                            const std::vector<float>& bias = {}) {
  for (int col = 0; col < s.n; ++col) {
    for (int row = 0; row < s.m; ++row) {
      double sum = 0;
      for (int i = 0; i < s.k; ++i) {
        sum += double{a[s.trans_a ? row * Lda(s) + i : i * Lda(s) + row]} *
               double{b[s.trans_b ? i * Ldb(s) + col : col * Ldb(s) + i]};
      }
      float& to = c[static_cast<size_t>(col * Ldc(s) + row)];
      const double before = beta == 0 ? 0 : beta * to;
      const double added = bias.empty() ? 0 : bias[static_cast<size_t>(row)];
      to = static_cast<float>(alpha * sum + before + added);
    }
  }
  return c;
}

void ExpectNear(const std::vector<float>& actual,
                const std::vector<float>& expected, float tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance) << i;
  }
}

const Shape kShapes[] = {{false, false, 5, 7, 3, 0},
                         {true, false, 8, 1, 17, 2},
                         {false, true, 1, 9, 4, 1},
                         {true, true, 33, 16, 20, 3}};

class CublasTest : public testing::Test {
 protected:
  void SetUp() override {
    EXPECT_CUDA_OK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    EXPECT_EQ(cublasCreate(&handle_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasSetStream(handle_, stream_), CUBLAS_STATUS_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cublasDestroy(handle_), CUBLAS_STATUS_SUCCESS);
    EXPECT_CUDA_OK(cudaStreamDestroy(stream_));
  }
  std::vector<float> Result(DeviceVector<float>& x) {
    EXPECT_CUDA_OK(cudaStreamSynchronize(stream_));
    return x.Values();
  }
  static cublasOperation_t Op(bool trans) {
    return trans ? CUBLAS_OP_T : CUBLAS_OP_N;
  }

  cudaStream_t stream_ = nullptr;
  cublasHandle_t handle_ = nullptr;
};

TEST_F(CublasTest, Sgemm) {
  for (const Shape& s : kShapes) {
    const auto a = Draw(SizeA(s), 1), b = Draw(SizeB(s), 2),
               c = Draw(SizeC(s), 3);
    DeviceVector<float> on_a(a), on_b(b), on_c(c);
    const float alpha = 0.5f, beta = -2;
    EXPECT_EQ(cublasSgemm(handle_, Op(s.trans_a), Op(s.trans_b), s.m, s.n, s.k,
                          &alpha, on_a.data(), Lda(s), on_b.data(), Ldb(s),
                          &beta, on_c.data(), Ldc(s)),
              CUBLAS_STATUS_SUCCESS);
    ExpectNear(Result(on_c), Expected(s, a.data(), b.data(), c, alpha, beta),
               1e-5f);
  }
}

TEST_F(CublasTest, WithoutBetaTheResultIsNotRead) {
  const Shape s = {false, false, 3, 4, 5, 0};
  DeviceVector<float> a(Draw(SizeA(s), 1)), b(Draw(SizeB(s), 2)), c(SizeC(s));
  const float alpha = 1, beta = 0;  // c is NaN.
  EXPECT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 3, 4, 5, &alpha,
                        a.data(), 3, b.data(), 5, &beta, c.data(), 3),
            CUBLAS_STATUS_SUCCESS);
  for (float value : Result(c)) EXPECT_TRUE(std::isfinite(value));
}

TEST_F(CublasTest, StridedBatches) {
  const Shape s = {false, true, 4, 6, 5, 1};
  const int count = 3;
  const auto a = Draw(SizeA(s) * count, 1), b = Draw(SizeB(s), 2);
  DeviceVector<float> on_a(a), on_b(b);
  DeviceVector<float> on_c(std::vector<float>(SizeC(s) * count, 0));
  const float alpha = 1, beta = 0;
  // One B for all.
  EXPECT_EQ(
      cublasSgemmStridedBatched(
          handle_, CUBLAS_OP_N, CUBLAS_OP_T, s.m, s.n, s.k, &alpha, on_a.data(),
          Lda(s), static_cast<long long>(SizeA(s)), on_b.data(), Ldb(s), 0,
          &beta, on_c.data(), Ldc(s), static_cast<long long>(SizeC(s)), count),
      CUBLAS_STATUS_SUCCESS);
  std::vector<float> expected;
  for (size_t i = 0; i < count; ++i) {
    const auto one = Expected(s, a.data() + i * SizeA(s), b.data(),
                              std::vector<float>(SizeC(s), 0), alpha, beta);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  ExpectNear(Result(on_c), expected, 1e-5f);
}

std::vector<__nv_bfloat16> Narrow(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

TEST_F(CublasTest, Bf16IsRoundedOnceAtTheEnd) {
  const Shape s = {true, false, 6, 5, 40, 0};
  auto a = Draw(SizeA(s), 1), b = Draw(SizeB(s), 2);
  DeviceVector<__nv_bfloat16> on_a(Narrow(a)), on_b(Narrow(b)), on_c(SizeC(s));
  for (float& value : a) value = Rounded(value);
  for (float& value : b) value = Rounded(value);
  const float alpha = 1, beta = 0;
  EXPECT_EQ(cublasGemmEx(handle_, CUBLAS_OP_T, CUBLAS_OP_N, s.m, s.n, s.k,
                         &alpha, on_a.data(), CUDA_R_16BF, Lda(s), on_b.data(),
                         CUDA_R_16BF, Ldb(s), &beta, on_c.data(), CUDA_R_16BF,
                         Ldc(s), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_CUDA_OK(cudaStreamSynchronize(stream_));
  const auto expected = Expected(s, a.data(), b.data(),
                                 std::vector<float>(SizeC(s)), alpha, beta);
  const auto actual = on_c.Values();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], std::abs(expected[i]) / 256 + 1e-5);
  }
}

TEST_F(CublasTest, Tf32RoundsTheFactors) {
  // 1 + 2^-10 stays, 1 + 2^-12 becomes 1.
  DeviceVector<float> a(std::vector<float>{1 + 0x1p-10f, 1 + 0x1p-12f});
  DeviceVector<float> b(std::vector<float>{1}), c(2);
  const float alpha = 1, beta = 0;
  for (cublasMath_t math : {CUBLAS_DEFAULT_MATH, CUBLAS_TF32_TENSOR_OP_MATH}) {
    EXPECT_EQ(cublasSetMathMode(handle_, math), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 1, 1, &alpha,
                          a.data(), 2, b.data(), 1, &beta, c.data(), 2),
              CUBLAS_STATUS_SUCCESS);
    const auto values = Result(c);
    EXPECT_EQ(values[0], 1 + 0x1p-10f);
    EXPECT_EQ(values[1], math == CUBLAS_DEFAULT_MATH ? 1 + 0x1p-12f : 1);
  }
}

TEST_F(CublasTest, Ssyrk) {
  const Shape s = {false, true, 5, 5, 8, 0};
  const auto a = Draw(SizeA(s), 1);
  DeviceVector<float> on_a(a), on_c(std::vector<float>(25, 9));
  const float alpha = 1, beta = 0;
  EXPECT_EQ(cublasSsyrk(handle_, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, 5, 8,
                        &alpha, on_a.data(), 5, &beta, on_c.data(), 5),
            CUBLAS_STATUS_SUCCESS);
  auto expected =
      Expected(s, a.data(), a.data(), std::vector<float>(25, 0), alpha, beta);
  for (size_t col = 0; col < 5; ++col) {
    for (size_t row = 0; row < col; ++row) expected[col * 5 + row] = 9;
  }
  ExpectNear(Result(on_c), expected, 1e-5f);
}

__global__ void Scale(int n, float* x) {
  if (static_cast<int>(threadIdx.x) < n) x[threadIdx.x] *= 2;
}

// The product comes after what is before it in the stream, in a graph too.
TEST_F(CublasTest, IsPartOfItsStream) {
  for (int seed = 0; seed < 20; ++seed) {
    SetSeed(static_cast<uint64_t>(seed));
    DeviceVector<float> a(std::vector<float>(1, 3)),
        b(std::vector<float>(1, 5));
    DeviceVector<float> c(1);
    const float alpha = 1, beta = 0;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    EXPECT_CUDA_OK(
        cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    EXPECT_CUDA_OK(Launch(Scale, 1, 32, 0, stream_, 1, a.data()));
    EXPECT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &alpha,
                          a.data(), 1, b.data(), 1, &beta, c.data(), 1),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_CUDA_OK(Launch(Scale, 1, 32, 0, stream_, 1, c.data()));
    EXPECT_CUDA_OK(cudaStreamEndCapture(stream_, &graph));
    EXPECT_CUDA_OK(cudaGraphInstantiate(&exec, graph));
    EXPECT_CUDA_OK(cudaGraphLaunch(exec, stream_));
    EXPECT_CUDA_OK(cudaGraphLaunch(exec, stream_));
    EXPECT_EQ(Result(c)[0], 3 * 4 * 5 * 2);
    EXPECT_CUDA_OK(cudaGraphDestroy(graph));
    EXPECT_CUDA_OK(cudaGraphExecDestroy(exec));
  }
}

TEST_F(CublasTest, ImpossibleShapesAreRefused) {
  DeviceVector<float> x(std::vector<float>(4, 0));
  const float one = 1;
  EXPECT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one,
                        x.data(), 1, x.data(), 2, &one, x.data(), 2),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasSgemm(nullptr, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one,
                        x.data(), 2, x.data(), 2, &one, x.data(), 2),
            CUBLAS_STATUS_NOT_INITIALIZED);
}

void MultiplyBeyond() {
  cublasHandle_t handle = nullptr;
  cublasCreate(&handle);
  DeviceVector<float> x(std::vector<float>(4, 0));
  const float one = 1;
  cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, &one, x.data(), 2,
              x.data(), 3, &one, x.data(), 2);
  std::exit(cudaDeviceSynchronize() == cudaErrorLaunchFailure ? 0 : 1);
}

TEST(FatalProduct, AMatrixBeyondItsAllocationIsFound) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(MultiplyBeyond(), testing::ExitedWithCode(0),
              "A does not lie whole in an allocation");
}

class CublasLtTest : public CublasTest {
 protected:
  void SetUp() override {
    CublasTest::SetUp();
    EXPECT_EQ(cublasLtCreate(&lt_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulDescCreate(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference_),
              CUBLAS_STATUS_SUCCESS);
  }
  void TearDown() override {
    for (cublasLtMatrixLayout_t layout : layouts_) {
      cublasLtMatrixLayoutDestroy(layout);
    }
    cublasLtMatmulPreferenceDestroy(preference_);
    cublasLtMatmulDescDestroy(desc_);
    EXPECT_EQ(cublasLtDestroy(lt_), CUBLAS_STATUS_SUCCESS);
    CublasTest::TearDown();
  }

  cublasLtMatrixLayout_t Layout(int rows, int cols, int ld) {
    layouts_.push_back(nullptr);
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&layouts_.back(), CUDA_R_32F,
                                         static_cast<uint64_t>(rows),
                                         static_cast<uint64_t>(cols), ld),
              CUBLAS_STATUS_SUCCESS);
    return layouts_.back();
  }
  template <typename T>
  cublasStatus_t Set(cublasLtMatmulDescAttributes_t attribute, T value) {
    return cublasLtMatmulDescSetAttribute(desc_, attribute, &value,
                                          sizeof value);
  }

  cublasLtHandle_t lt_ = nullptr;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  std::vector<cublasLtMatrixLayout_t> layouts_;
};

TEST_F(CublasLtTest, AddsABiasPerRow) {
  for (const Shape& s : kShapes) {
    const auto a = Draw(SizeA(s), 1), b = Draw(SizeB(s), 2),
               c = Draw(SizeC(s), 3);
    const auto bias = Draw(static_cast<size_t>(s.m), 4);
    DeviceVector<float> on_a(a), on_b(b), on_c(c), on_d(c), on_bias(bias);
    const auto la =
        Layout(s.trans_a ? s.k : s.m, s.trans_a ? s.m : s.k, Lda(s));
    const auto lb =
        Layout(s.trans_b ? s.n : s.k, s.trans_b ? s.k : s.n, Ldb(s));
    const auto lc = Layout(s.m, s.n, Ldc(s));
    EXPECT_EQ(Set(CUBLASLT_MATMUL_DESC_TRANSA, Op(s.trans_a)),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(Set(CUBLASLT_MATMUL_DESC_TRANSB, Op(s.trans_b)),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(Set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, on_bias.data()),
              CUBLAS_STATUS_SUCCESS);
    cublasLtMatmulHeuristicResult_t best = {};
    int found = 0;
    EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(lt_, desc_, la, lb, lc, lc,
                                             preference_, 1, &best, &found),
              CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(found, 1);
    const float alpha = 1.5f, beta = 0.25f;
    EXPECT_EQ(cublasLtMatmul(lt_, desc_, &alpha, on_a.data(), la, on_b.data(),
                             lb, &beta, on_c.data(), lc, on_d.data(), lc,
                             &best.algo, nullptr, 0, stream_),
              CUBLAS_STATUS_SUCCESS);
    ExpectNear(Result(on_d),
               Expected(s, a.data(), b.data(), c, alpha, beta, bias), 1e-5f);
  }
}

TEST_F(CublasLtTest, RefusesWhatItDoesNotSupport) {
  cublasLtMatmulHeuristicResult_t best = {};
  int found = 7;
  const auto l = Layout(2, 2, 2), wrong = Layout(3, 2, 3);
  EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(lt_, desc_, l, wrong, l, l,
                                           preference_, 1, &best, &found),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(found, 0);
  // A bias that is nowhere, and an attribute of the wrong size.
  EXPECT_EQ(Set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(lt_, desc_, l, l, l, l, preference_,
                                           1, &best, &found),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(Set(CUBLASLT_MATMUL_DESC_TRANSA, int64_t{1}),
            CUBLAS_STATUS_INVALID_VALUE);
}

}  // namespace
}  // namespace gimbal::cuda_host
