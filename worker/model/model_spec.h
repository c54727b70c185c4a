// The model in numbers: what the numeric core needs of a run's config. Plain
// structs, so that no protobuf header reaches the kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gimbal::worker {

enum class Activation { kGeluTanh, kGeluErf, kRelu };

// A GPT-2 style decoder: token + learned position embedding, pre-LN blocks,
// final LayerNorm, untied LM head.
struct ModelSpec {
  int layers = 0;   // transformer blocks
  int hidden = 0;   // C
  int heads = 0;    // divides hidden
  int context = 0;  // T, tokens per sample
  int vocab = 0;    // V
  int mlp_hidden = 0;
  Activation activation = Activation::kGeluTanh;
  bool qkv_bias = true;
  bool head_bias = false;
  double init_std = 0.02;
  double norm_eps = 1e-5;
  // Activations, their gradients and the factors of products are bf16;
  // parameters and sums stay fp32.
  bool bf16 = false;
  // Products round their factors to TF32 first, where those are fp32.
  bool tf32 = false;
};

// The consecutive part of the model that one pipeline stage holds.
struct StageSpec {
  ModelSpec model;
  int first_block = 0;
  int blocks = 0;
  bool first = false;  // holds the embeddings, takes tokens
  bool last = false;   // holds final norm and head, computes the loss
  int microbatch = 0;  // B, samples per microbatch
};

}  // namespace gimbal::worker
