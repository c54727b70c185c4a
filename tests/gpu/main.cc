// Times and checks the CUDA back end on the first device; see run.sh. Tables in
// Markdown on standard output.
//
//   gpu_bench ops|train|124M|350M [--tiny] [--seconds S] [--rotation]
//
// Exit code: 0, 1 when something is wrong or there is no device, 2 for a usage.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "tests/gpu/bench.h"

namespace gimbal::gpu {
namespace {

using worker::ModelSpec;

// GPT-2's vocabulary of 50257 filled up to a multiple of 64.
constexpr ModelSpec k124M = {.layers = 12,
                             .hidden = 768,
                             .heads = 12,
                             .context = 1024,
                             .vocab = 50304,
                             .mlp_hidden = 3072};
constexpr ModelSpec k350M = {.layers = 24,
                             .hidden = 1024,
                             .heads = 16,
                             .context = 1024,
                             .vocab = 50304,
                             .mlp_hidden = 4096};

int Usage() {
  std::fprintf(stderr,
               "usage: gpu_bench ops|train|124M|350M [--tiny] [--seconds S] "
               "[--rotation]\n");
  return 2;
}

void Print(const Device& device) {
  std::printf(
      "%s, sm_%d%d: %d multiprocessors at %.0f MHz, at most %.1f TFLOP/s in "
      "fp32, %.1f in bf16 (0: not known) and %.0f GB/s.\n\n",
      device.name.c_str(), device.major, device.minor, device.multiprocessors,
      1e-6 * device.clock_hz, 1e-12 * device.peak_flops,
      1e-12 * device.peak_bf16_flops, 1e-9 * device.peak_bytes);
}

bool Run(const char* part, const BenchOptions& options) {
  const Device device = FirstDevice();
  Print(device);
  if (std::strcmp(part, "ops") == 0) return BenchOps(device, options);
  if (std::strcmp(part, "train") == 0) return CheckTraining(options);
  const ModelSpec& model = std::strcmp(part, "124M") == 0 ? k124M : k350M;
  return BenchStep(part, model, device, options);
}

int Main(int argc, char** argv) {
  BenchOptions options;
  const char* part = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--tiny") == 0) {
      options.tiny = true;
    } else if (std::strcmp(argv[i], "--rotation") == 0) {
      options.rotation = true;
    } else if (std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
      options.seconds = std::atof(argv[++i]);
    } else if (part == nullptr) {
      part = argv[i];
    } else {
      return Usage();
    }
  }
  for (const char* known : {"ops", "train", "124M", "350M"}) {
    if (part == nullptr || std::strcmp(part, known) != 0) continue;
    try {
      return Run(part, options) ? 0 : 1;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "gpu_bench: %s\n", e.what());
      return 1;
    }
  }
  return Usage();
}

}  // namespace
}  // namespace gimbal::gpu

int main(int argc, char** argv) { return gimbal::gpu::Main(argc, argv); }
