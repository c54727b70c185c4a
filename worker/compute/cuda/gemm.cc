#include "worker/compute/cuda/gemm.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "worker/compute/cuda/check.h"

namespace gimbal::compute::cuda {
namespace {

constexpr size_t kWorkspace = size_t{32} << 20;

void CheckLt(cublasStatus_t status, const char* what, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  Fail(what, __FILE__, line, cublasLtGetStatusString(status));
}
#define CHECK_LT(call) CheckLt((call), #call, __LINE__)

// What an algorithm may rely on.
uint32_t AlignmentOf(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  return address == 0 ? 256
                      : std::min<uint32_t>(
                            256, uint32_t{1} << std::countr_zero(address));
}

cublasOperation_t OperationOf(Trans trans) {
  return trans == Trans::kYes ? CUBLAS_OP_T : CUBLAS_OP_N;
}

int64_t BatchOfChoice(const GemmCall& call) {
  return call.as_batch > 0 ? call.as_batch : call.batch;
}

class Layout {
 public:
  // Column-major.
  Layout(cudaDataType_t type, int64_t rows, int64_t cols, int64_t ld,
         int64_t batch, int64_t stride) {
    CHECK_LT(cublasLtMatrixLayoutCreate(&layout_, type,
                                        static_cast<uint64_t>(rows),
                                        static_cast<uint64_t>(cols), ld));
    if (batch == 1) return;
    SetBatch(batch);
    Set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  }
  ~Layout() { cublasLtMatrixLayoutDestroy(layout_); }
  Layout(const Layout&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

  void SetBatch(int64_t batch) {
    Set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batch));
  }

 private:
  template <typename T>
  void Set(cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
    CHECK_LT(cublasLtMatrixLayoutSetAttribute(layout_, attribute, &value,
                                              sizeof value));
  }

  cublasLtMatrixLayout_t layout_ = nullptr;
};

class Preference {
 public:
  Preference() { CHECK_LT(cublasLtMatmulPreferenceCreate(&preference_)); }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  cublasLtMatmulPreference_t get() const { return preference_; }

  template <typename T>
  void Set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    CHECK_LT(cublasLtMatmulPreferenceSetAttribute(preference_, attribute,
                                                  &value, sizeof value));
  }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace

// All that the choice of an algorithm depends on.
struct Gemm::Key {
  explicit Key(const GemmCall& call)
      : value{call.trans_a,
              call.trans_b,
              call.m,
              call.n,
              call.k,
              call.lda,
              call.ldb,
              call.ldd,
              call.batch,
              BatchOfChoice(call),
              call.stride_a,
              call.stride_b,
              call.stride_d,
              static_cast<bool>(call.bias),
              call.beta != 0,
              call.a.type,
              call.d.type,
              AlignmentOf(call.a.data),
              AlignmentOf(call.b.data),
              AlignmentOf(call.c.data),
              AlignmentOf(call.d.data)} {}
  friend auto operator<=>(const Key&, const Key&) = default;

  std::tuple<Trans, Trans, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
             int64_t, int64_t, int64_t, int64_t, int64_t, bool, bool,
             cudaDataType_t, cudaDataType_t, uint32_t, uint32_t, uint32_t,
             uint32_t>
      value;
};

// cuBLASLt is column-major and sees every matrix transposed, so D^T = op(B)^T
// op(A)^T is what it is asked for: the factors change places.
struct Gemm::Plan {
  Plan(cublasLtHandle_t handle, cublasComputeType_t compute,
       const GemmCall& call)
      : a(call.b.type, call.trans_b == Trans::kYes ? call.k : call.n,
          call.trans_b == Trans::kYes ? call.n : call.k, call.ldb,
          BatchOfChoice(call), call.stride_b),
        b(call.a.type, call.trans_a == Trans::kYes ? call.m : call.k,
          call.trans_a == Trans::kYes ? call.k : call.m, call.lda,
          BatchOfChoice(call), call.stride_a),
        d(call.d.type, call.n, call.m, call.ldd, BatchOfChoice(call),
          call.stride_d) {
    CHECK_LT(cublasLtMatmulDescCreate(&product, compute, CUDA_R_32F));
    Set(CUBLASLT_MATMUL_DESC_TRANSA, OperationOf(call.trans_b));
    Set(CUBLASLT_MATMUL_DESC_TRANSB, OperationOf(call.trans_a));
    if (call.bias) {
      Set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias.data);
    }
    Choose(handle, call);
    if (BatchOfChoice(call) == call.batch) return;
    for (Layout* layout : {&a, &b, &d}) layout->SetBatch(call.batch);
  }
  ~Plan() { cublasLtMatmulDescDestroy(product); }
  Plan(const Plan&) = delete;

  template <typename T>
  void Set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    CHECK_LT(cublasLtMatmulDescSetAttribute(product, attribute, &value,
                                            sizeof value));
  }

  void Choose(cublasLtHandle_t handle, const GemmCall& call) {
    Preference preference;
    preference.Set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    // A split sum is added up in memory of its own, in order.
    preference.Set(
        CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    preference.Set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                   AlignmentOf(call.b.data));
    preference.Set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                   AlignmentOf(call.a.data));
    preference.Set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                   AlignmentOf(call.c.data));
    preference.Set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
                   AlignmentOf(call.d.data));
    cublasLtMatmulHeuristicResult_t best = {};
    int found = 0;
    CHECK_LT(cublasLtMatmulAlgoGetHeuristic(handle, product, a.get(), b.get(),
                                            d.get(), d.get(), preference.get(),
                                            1, &best, &found));
    if (found == 0) {
      Fail("cublasLtMatmul", __FILE__, __LINE__, "no algorithm for this shape");
    }
    algorithm = best.algo;
  }

  cublasLtMatmulDesc_t product = nullptr;
  Layout a, b, d;
  cublasLtMatmulAlgo_t algorithm;
};

Gemm::Gemm(bool tf32)
    : compute_(tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F) {
  CHECK_LT(cublasLtCreate(&handle_));
  const cudaError_t error = cudaMalloc(&workspace_, kWorkspace);
  if (error != cudaSuccess) cublasLtDestroy(handle_);
  GIMBAL_CUDA_CHECK(error);
}

Gemm::~Gemm() {
  plans_.clear();
  cudaFree(workspace_);
  cublasLtDestroy(handle_);
}

Gemm::Plan& Gemm::PlanOf(const GemmCall& call) {
  const auto other = [](const Source& one, const auto& with) {
    return one && one.type != with.type;
  };
  if (other(call.b, call.a) || other(call.c, call.d) ||
      other(call.bias, call.d)) {
    Fail("Gemm", __FILE__, __LINE__, "matrices of types that do not fit");
  }
  std::unique_ptr<Plan>& plan = plans_[Key(call)];
  if (plan == nullptr) plan = std::make_unique<Plan>(handle_, compute_, call);
  return *plan;
}

void Gemm::operator()(cudaStream_t stream, const GemmCall& call) {
  Plan& plan = PlanOf(call);
  if (call.bias) {
    plan.Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias.data);
  }
  const Source c = call.c ? call.c : Source(call.d);
  CHECK_LT(cublasLtMatmul(handle_, plan.product, &call.alpha, call.b.data,
                          plan.a.get(), call.a.data, plan.b.get(), &call.beta,
                          c.data, plan.d.get(), call.d.data, plan.d.get(),
                          &plan.algorithm, workspace_, kWorkspace, stream));
}

void LinearForward(cudaStream_t stream, Gemm& gemm, const LinearShape& shape,
                   Source x, Source w, Source bias, Source addend, Target y) {
  gemm(stream, {.trans_b = Trans::kYes,
                .m = shape.rows,
                .n = shape.out,
                .k = shape.in,
                .beta = addend ? 1.0f : 0.0f,
                .a = x,
                .lda = shape.in,
                .b = w,
                .ldb = shape.in,
                .c = addend,
                .d = y,
                .ldd = shape.out,
                .bias = bias});
}

void LinearBackwardInput(cudaStream_t stream, Gemm& gemm,
                         const LinearShape& shape, float alpha, Source dy,
                         Source w, Target dx) {
  gemm(stream, {.m = shape.rows,
                .n = shape.in,
                .k = shape.out,
                .alpha = alpha,
                .a = dy,
                .lda = shape.out,
                .b = w,
                .ldb = shape.in,
                .d = dx,
                .ldd = shape.in});
}

void LinearBackwardWeight(cudaStream_t stream, Gemm& gemm,
                          const LinearShape& shape, float alpha, Source dy,
                          Source x, Target dw) {
  gemm(stream, {.trans_a = Trans::kYes,
                .m = shape.out,
                .n = shape.in,
                .k = shape.rows,
                .alpha = alpha,
                .beta = 1,
                .a = dy,
                .lda = shape.out,
                .b = x,
                .ldb = shape.in,
                .c = dw,
                .d = dw,
                .ldd = shape.in});
}

}  // namespace gimbal::compute::cuda
