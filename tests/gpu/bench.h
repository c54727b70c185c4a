// The parts of gpu_bench. Each prints a table in Markdown to standard output
// and says whether what it found is right. They throw CudaError when the device
// fails.
#pragma once

#include "tests/gpu/device.h"
#include "worker/model/model_spec.h"

namespace gimbal::gpu {

struct BenchOptions {
  // Sizes that the host layer can do in a second or two; its times say nothing.
  bool tiny = false;
  // After so many seconds nothing new is begun. What was left out is printed.
  double seconds = 60;
  // BenchStep: basis rotation, too.
  bool rotation = false;
};

// Every op by itself, with the shapes of GPT-2 124M at 8 samples: time, bytes
// and FLOP per second (those that the ops' headers state) and their share of
// the device's peaks; attention also in bf16.
bool BenchOps(const Device& device, const BenchOptions& options);

// Training steps of the whole model in one stage, 64 samples per update: tokens
// per second, MFU, the share of forward, backward and update, and what an
// update with basis rotation takes beside AdamW's.
bool BenchStep(const char* name, const worker::ModelSpec& model,
               const Device& device, const BenchOptions& options);

// Trains a small model in an asynchronous pipeline of 8 stages on the device
// and on the CPU. False when a loss differs by more than 1e-4 of itself.
bool CheckTraining(const BenchOptions& options);

}  // namespace gimbal::gpu
