#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "tests/gpu/bench.h"
#include "tests/gpu/random_values.h"
#include "worker/compute/attention.h"
#include "worker/compute/cuda/activation.h"
#include "worker/compute/cuda/attention.h"
#include "worker/compute/cuda/cross_entropy.h"
#include "worker/compute/cuda/embedding.h"
#include "worker/compute/cuda/gemm.h"
#include "worker/compute/cuda/layer_norm.h"
#include "worker/compute/cuda/memory.h"
#include "worker/compute/cuda/reduce.h"
#include "worker/compute/cuda/solver.h"
#include "worker/compute/cuda/symmetric.h"
#include "worker/compute/cuda/update.h"

namespace gimbal::gpu {
namespace {

namespace cuda = compute::cuda;
using Array = cuda::DeviceBuffer<float>;

struct Sizes {
  int64_t samples = 8, context = 1024, heads = 12, hidden = 768, mlp = 3072,
          vocab = 50304, weights = int64_t{1} << 25;
  int64_t rows() const { return samples * context; }
};

class OpsBench {
 public:
  OpsBench(const Device& device, const BenchOptions& options)
      : device_(device),
        options_(options),
        start_(std::chrono::steady_clock::now()) {
    if (options.tiny) s_ = {1, 8, 2, 16, 64, 32, 1000};
  }

  void Run() {
    std::printf(
        "| op | us | GB/s | of peak | TFLOP/s | of peak |\n"
        "|---|---|---|---|---|---|\n");
    Linear("q, k, v", s_.hidden, 3 * s_.hidden);
    Linear("attention's output", s_.hidden, s_.hidden);
    Linear("MLP in", s_.hidden, s_.mlp);
    Linear("MLP out", s_.mlp, s_.hidden);
    Linear("head", s_.hidden, s_.vocab);
    Attention<float>("", device_.peak_flops);
    Attention<cuda::Bf16>(" in bf16", device_.peak_bf16_flops);
    Rows();
    Updates();
    Bases();
    for (const std::string& name : left_out_) {
      std::printf("\nLeft out, no time: %s\n", name.c_str());
    }
  }

 private:
  template <typename T = float>
  static cuda::DeviceBuffer<T> Random(int64_t n) {
    const std::vector<float> numbers = RandomStretch(n);
    const std::vector<T> stretch(numbers.begin(), numbers.end());
    const auto size = static_cast<int64_t>(stretch.size());
    cuda::DeviceBuffer<T> array(n);
    for (int64_t at = 0; at < n; at += size) {
      GIMBAL_CUDA_CHECK(
          cudaMemcpy(array.data() + at, stretch.data(),
                     static_cast<size_t>(std::min(size, n - at)) * sizeof(T),
                     cudaMemcpyHostToDevice));
    }
    return array;
  }
  template <typename T>
  static cuda::DeviceBuffer<T> Copied(const std::vector<T>& values) {
    cuda::DeviceBuffer<T> buffer(static_cast<int64_t>(values.size()));
    GIMBAL_CUDA_CHECK(cudaMemcpy(buffer.data(), values.data(), buffer.bytes(),
                                 cudaMemcpyHostToDevice));
    return buffer;
  }

  bool TimeIsUp() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start_)
               .count() > options_.seconds;
  }

  float Milliseconds(int repeats, const std::function<void()>& enqueue) {
    GIMBAL_CUDA_CHECK(cudaEventRecord(begin_.get(), stream()));
    for (int i = 0; i < repeats; ++i) enqueue();
    GIMBAL_CUDA_CHECK(cudaEventRecord(end_.get(), stream()));
    GIMBAL_CUDA_CHECK(cudaEventSynchronize(end_.get()));
    float ms = 0;
    GIMBAL_CUDA_CHECK(cudaEventElapsedTime(&ms, begin_.get(), end_.get()));
    return ms;
  }

  void Measure(const std::string& name, double bytes, double flop,
               const std::function<void()>& enqueue) {
    Measure(name, bytes, flop, enqueue, device_.peak_flops);
  }
  // Bytes and FLOP are those beside the launchers; 0: not said, or not known.
  void Measure(const std::string& name, double bytes, double flop,
               const std::function<void()>& enqueue, double peak_flops) {
    if (TimeIsUp()) {
      left_out_.push_back(name);
      return;
    }
    constexpr float kEnoughMs = 20;
    Milliseconds(1, enqueue);  // chooses algorithms
    int repeats = options_.tiny ? 1 : 2;
    float ms = Milliseconds(repeats, enqueue);
    if (!options_.tiny && ms < kEnoughMs) {
      repeats = std::clamp(static_cast<int>(static_cast<float>(repeats) *
                                            kEnoughMs / std::max(ms, 1e-3f)),
                           3, 1000);
      ms = Milliseconds(repeats, enqueue);
    }
    const double seconds = 1e-3 * ms / repeats;
    std::printf("| %s | %.1f |", name.c_str(), 1e6 * seconds);
    PrintRate(bytes, seconds, 1e-9, device_.peak_bytes);
    PrintRate(flop, seconds, 1e-12, peak_flops);
    std::printf("\n");
  }
  static void PrintRate(double amount, double seconds, double unit,
                        double peak) {
    if (amount == 0) {
      std::printf(" | |");
    } else {
      const double rate = amount / seconds;
      std::printf(" %.2f | %.1f%% |", unit * rate,
                  peak > 0 ? 100 * rate / peak : 0.0);
    }
  }

  void Linear(const std::string& label, int64_t in, int64_t out) {
    const compute::LinearShape shape = {s_.rows(), in, out};
    const Array x = Random(shape.rows * in), w = Random(in * out),
                y = Random(shape.rows * out), b = Random(out);
    const double n = static_cast<double>(shape.rows),
                 i = static_cast<double>(in), o = static_cast<double>(out);
    const double bytes = 4 * (n * i + i * o + n * o), flop = 2 * n * i * o;
    Measure(label + ": forward", bytes, flop, [&] {
      LinearForward(stream(), gemm_, shape, x.data(), w.data(), b.data(),
                    nullptr, y.data());
    });
    Measure(label + ": to the input", bytes, flop, [&] {
      LinearBackwardInput(stream(), gemm_, shape, 1, y.data(), w.data(),
                          x.data());
    });
    Measure(label + ": to the weights", bytes + 4 * i * o, flop, [&] {
      LinearBackwardWeight(stream(), gemm_, shape, 1, y.data(), x.data(),
                           w.data());
    });
  }

  // In bf16 on tensor cores, whose peak is another.
  template <typename T>
  void Attention(const std::string& type, double peak_flops) {
    const compute::AttentionShape shape = {s_.samples, s_.context, s_.heads,
                                           s_.hidden / s_.heads};
    const int64_t nc = s_.rows() * s_.hidden;
    const auto qkv = Random<T>(3 * nc), d = Random<T>(nc);
    const cuda::DeviceBuffer<T> o(nc), dqkv(3 * nc);
    const Array lse(s_.rows() * s_.heads),
        scratch(cuda::AttentionBackwardScratch(shape));
    const double n = static_cast<double>(nc), e = sizeof(T);
    const double t = static_cast<double>(s_.context);
    const auto forward = [&] {
      cuda::AttentionForward(stream(), shape, qkv.data(), o.data(), lse.data());
    };
    const auto backward = [&] {
      cuda::AttentionBackward(stream(), shape, qkv.data(), o.data(), lse.data(),
                              d.data(), dqkv.data(), scratch.data());
    };
    Measure("AttentionForward" + type, 4 * e * n, 2 * n * t, forward,
            peak_flops);
    Measure("AttentionBackward" + type, 11 * e * n, 7 * n * t, backward,
            peak_flops);
  }

  void Rows() {
    const int64_t rows = s_.rows(), c = s_.hidden;
    const double nc = static_cast<double>(rows * c);
    const Array x = Random(rows * c), y = Random(rows * c), w = Random(c),
                b = Random(c), mean(rows), rstd(rows), dw(c), db(c),
                scratch(cuda::LayerNormScratch(c)),
                sums(cuda::ColumnSumScratch(c));
    Measure("LayerNormForward", 8 * nc, 8 * nc, [&] {
      cuda::LayerNormForward(stream(), rows, c, 1e-5f, x.data(), w.data(),
                             b.data(), y.data(), mean.data(), rstd.data());
    });
    Measure("LayerNormBackward", 20 * nc, 18 * nc, [&] {
      cuda::LayerNormBackward(stream(), rows, c, x.data(), w.data(), b.data(),
                              mean.data(), rstd.data(), y.data(), dw.data(),
                              db.data(), x.data(), scratch.data());
    });
    Measure("ColumnSum", 4 * nc, nc, [&] {
      cuda::ColumnSum(stream(), rows, c, 1, x.data(), db.data(), sums.data());
    });
    Activation();
    Ends(x.data(), y.data());
  }

  void Activation() {
    const int64_t n = s_.rows() * s_.mlp;
    const Array x = Random(n), y = Random(n);
    const double size = static_cast<double>(n);
    Measure("ActivationForward", 8 * size, 20 * size, [&] {
      cuda::ActivationForward(stream(), worker::Activation::kGeluTanh, n,
                              x.data(), y.data());
    });
    Measure("ActivationBackward", 16 * size, 35 * size, [&] {
      cuda::ActivationBackward(stream(), worker::Activation::kGeluTanh, n,
                               x.data(), y.data());
    });
  }

  // [rows, hidden] both.
  void Ends(const float* dy, float* y) {
    const int64_t rows = s_.rows(), c = s_.hidden;
    std::vector<int32_t> ids(static_cast<size_t>(rows));
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<int32_t>(base::RandomBits(4, 0, i) %
                                    static_cast<uint64_t>(s_.vocab));
    }
    const auto tokens = Copied(ids);
    const auto groups = cuda::GroupTokens(rows, s_.vocab, ids.data());
    const auto token = Copied(groups.token), begin = Copied(groups.begin),
               row = Copied(groups.row);
    const Array wte = Random(s_.vocab * c), wpe = Random(s_.context * c);
    const double nc = static_cast<double>(rows * c);
    Measure("EmbeddingForward", 12 * nc, nc, [&] {
      cuda::EmbeddingForward(stream(), s_.samples, s_.context, c, tokens.data(),
                             wte.data(), wpe.data(), y);
    });
    Measure(
        "EmbeddingBackward",
        8 * nc + 8.0 * static_cast<double>(c * (groups.groups() + s_.context)),
        2 * nc, [&] {
          cuda::EmbeddingBackward(stream(), s_.samples, s_.context, c,
                                  groups.groups(), token.data(), begin.data(),
                                  row.data(), dy, wte.data(), wpe.data());
        });
    const Array logits = Random(rows * s_.vocab), losses(rows);
    const double size = static_cast<double>(rows * s_.vocab);
    Measure("CrossEntropy", 8 * size, 8 * size, [&] {
      cuda::CrossEntropy(stream(), rows, s_.vocab, 1, tokens.data(),
                         logits.data(), losses.data());
    });
  }

  void Updates() {
    const int64_t n = s_.weights;
    const Array w = Random(n), g = Random(n), m = Random(n), v(n);
    const worker::AdamWRule rule = {.moments = {0.9, 0.999, 1e-8},
                                    .grad_scale = 1,
                                    .keep = 1,
                                    .moment_step = 1e-4,
                                    .gradient_step = 0,
                                    .root_correction = 1};
    const double size = static_cast<double>(n);
    Measure("AdamWStep", 28 * size, 16 * size, [&] {
      cuda::AdamWStep(stream(), n, rule, w.data(), g.data(), m.data(), v.data(),
                      w.data());
    });
    Measure("RotatedDirection", 24 * size, 13 * size, [&] {
      cuda::RotatedDirection(stream(), n, rule, g.data(), m.data(), v.data());
    });
    const auto ends = Copied<int64_t>({0, n});
    const cuda::DeviceBuffer<double> sums(1), scratch(cuda::kReduceScratch);
    Measure("SquareSums", 4 * size, 2 * size, [&] {
      cuda::SquareSums(stream(), 1, ends.data(), ends.data() + 1, w.data(),
                       sums.data(), scratch.data());
    });
    const cuda::DeviceBuffer<int> found(1);
    Measure("FindNonFinite", 4 * size, 0,
            [&] { cuda::FindNonFinite(stream(), n, w.data(), found.data()); });
  }

  void Bases() {
    const int64_t c = s_.hidden, k = s_.mlp;
    const Array a = Random(c * k), square = Random(c * c);
    const double n = static_cast<double>(c);
    cuda::SymmetricProducts products(stream());
    Measure("SymmetricProducts::Rows", 4 * n * static_cast<double>(c + k),
            n * n * static_cast<double>(k),
            [&] { products.Rows(c, k, 1, a.data(), 0, square.data()); });
    cuda::Solver solver;
    solver.Reserve(c);
    Measure("OrthonormalizeRows", 8 * n * n * n / 32, 8.0 / 3 * n * n * n, [&] {
      cuda::Event ready;
      GIMBAL_CUDA_CHECK(cudaEventRecord(ready.get(), stream()));
      solver.After(ready);
      solver.OrthonormalizeRows(c, c, square.data());
      solver.Join(stream());
    });
  }

  cudaStream_t stream() const { return stream_.get(); }

  // Records times, which the library's events do not.
  class TimingEvent {
   public:
    TimingEvent() { GIMBAL_CUDA_CHECK(cudaEventCreate(&event_)); }
    TimingEvent(const TimingEvent&) = delete;
    ~TimingEvent() { cudaEventDestroy(event_); }
    cudaEvent_t get() const { return event_; }

   private:
    cudaEvent_t event_ = nullptr;
  };

  const Device& device_;
  const BenchOptions& options_;
  const std::chrono::steady_clock::time_point start_;
  Sizes s_;
  cuda::Stream stream_;
  cuda::Gemm gemm_;
  TimingEvent begin_, end_;
  std::vector<std::string> left_out_;
};

}  // namespace

bool BenchOps(const Device& device, const BenchOptions& options) {
  OpsBench(device, options).Run();
  return true;
}

}  // namespace gimbal::gpu
