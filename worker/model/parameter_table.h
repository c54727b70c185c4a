// The parameters of a stage as a table: the one place that knows names, shapes,
// initial values and optimizer groups. Weights, gradients and each stashed
// version are flat arrays ("arenas") of `size()` elements laid out by it;
// stash, optimizer and checkpoint iterate over it.
//
// Names are those of the whole model (`h.3.attn.q.weight`), so a table's rows do
// not depend on how the model is split.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/model/model_spec.h"

namespace gimbal::worker {

enum class ParamGroup {
  kMatrix,     // attention and MLP matrices: the ones that are rotated
  kEmbedding,  // wte [V, C], wpe [T, C]
  kHead,       // lm_head.weight [V, C]
  kVector,     // norms and biases
};

enum class ParamInit { kNormal, kZero, kOne };

struct Param {
  std::string name;
  // Layer file the parameter belongs to: 0 embeddings, 1..L blocks, L+1 final
  // norm and head.
  int layer = 0;
  int64_t rows = 0;  // out features; vectors are [1, n]
  int64_t cols = 0;  // in features
  int64_t offset = 0;  // of the first element in an arena
  ParamGroup group = ParamGroup::kVector;
  ParamInit init = ParamInit::kZero;

  int64_t size() const { return rows * cols; }
};

class ParameterTable {
 public:
  // Every tensor starts on a 64-byte boundary except k and v of a block, which
  // follow q directly (weights and biases alike), so that q, k, v are one
  // [3C, C] operand of one GEMM and still three parameters.
  static ParameterTable ForStage(const StageSpec& spec);

  std::span<const Param> params() const { return params_; }
  // Elements of an arena, padding included; padding is always zero.
  int64_t size() const { return size_; }
  // Elements without padding.
  int64_t parameter_count() const;
  // Aborts when there is no such parameter.
  const Param& at(std::string_view name) const;

  // Fills an arena with initial values: a pure function of (seed, name), the
  // same however the model is split.
  template <typename T>
  void Initialize(uint64_t seed, double init_std, T* arena) const;

 private:
  std::vector<Param> params_;
  int64_t size_ = 0;
};

}  // namespace gimbal::worker
