#include "worker/model/parameter_table.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "common/base/random.h"

namespace gimbal::worker {
namespace {

// 64 bytes of float; tensors of double are aligned twice as much.
constexpr int64_t kAlignment = 16;

int64_t Align(int64_t n) {
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

// Appends rows to the table, each on an aligned offset unless it is packed to
// the one before.
class Builder {
 public:
  void Layer(int layer) { layer_ = layer; }

  void Matrix(std::string name, int64_t rows, int64_t cols, ParamGroup group,
              bool packed = false) {
    Add(std::move(name), rows, cols, group, ParamInit::kNormal, packed);
  }
  void Bias(std::string name, int64_t size, bool packed = false) {
    Add(std::move(name), 1, size, ParamGroup::kVector, ParamInit::kZero,
        packed);
  }
  void Norm(const std::string& name, int64_t size) {
    Add(name + ".weight", 1, size, ParamGroup::kVector, ParamInit::kOne, false);
    Bias(name + ".bias", size);
  }

  std::vector<Param> TakeParams() { return std::move(params_); }
  int64_t size() const { return Align(end_); }

 private:
  void Add(std::string name, int64_t rows, int64_t cols, ParamGroup group,
           ParamInit init, bool packed) {
    Param p{.name = std::move(name),
            .layer = layer_,
            .rows = rows,
            .cols = cols,
            .offset = packed ? end_ : Align(end_),
            .group = group,
            .init = init};
    end_ = p.offset + p.size();
    params_.push_back(std::move(p));
  }

  std::vector<Param> params_;
  int64_t end_ = 0;
  int layer_ = 0;
};

void AddBlock(const ModelSpec& model, int index, Builder& table) {
  const std::string prefix = "h." + std::to_string(index) + ".";
  const int64_t c = model.hidden;
  const int64_t m = model.mlp_hidden;
  table.Layer(index + 1);
  table.Norm(prefix + "ln1", c);
  for (const char* part : {"q", "k", "v"}) {
    table.Matrix(prefix + "attn." + part + ".weight", c, c, ParamGroup::kMatrix,
                 /*packed=*/*part != 'q');
  }
  if (model.qkv_bias) {
    for (const char* part : {"q", "k", "v"}) {
      table.Bias(prefix + "attn." + part + ".bias", c,
                 /*packed=*/*part != 'q');
    }
  }
  table.Matrix(prefix + "attn.proj.weight", c, c, ParamGroup::kMatrix);
  table.Bias(prefix + "attn.proj.bias", c);
  table.Norm(prefix + "ln2", c);
  table.Matrix(prefix + "mlp.fc.weight", m, c, ParamGroup::kMatrix);
  table.Bias(prefix + "mlp.fc.bias", m);
  table.Matrix(prefix + "mlp.proj.weight", c, m, ParamGroup::kMatrix);
  table.Bias(prefix + "mlp.proj.bias", c);
}

}  // namespace

ParameterTable ParameterTable::ForStage(const StageSpec& spec) {
  const ModelSpec& model = spec.model;
  Builder builder;
  if (spec.first) {
    builder.Layer(0);
    builder.Matrix("wte", model.vocab, model.hidden, ParamGroup::kEmbedding);
    builder.Matrix("wpe", model.context, model.hidden, ParamGroup::kEmbedding);
  }
  for (int i = 0; i < spec.blocks; ++i) {
    AddBlock(model, spec.first_block + i, builder);
  }
  if (spec.last) {
    builder.Layer(model.layers + 1);
    builder.Norm("ln_f", model.hidden);
    builder.Matrix("lm_head.weight", model.vocab, model.hidden,
                   ParamGroup::kHead);
    if (model.head_bias) builder.Bias("lm_head.bias", model.vocab);
  }
  ParameterTable table;
  table.params_ = builder.TakeParams();
  table.size_ = builder.size();
  return table;
}

int64_t ParameterTable::parameter_count() const {
  int64_t count = 0;
  for (const Param& p : params_) count += p.size();
  return count;
}

const Param& ParameterTable::at(std::string_view name) const {
  for (const Param& p : params_) {
    if (p.name == name) return p;
  }
  std::fprintf(stderr, "no parameter named %.*s in this stage\n",
               static_cast<int>(name.size()), name.data());
  std::abort();
}

template <typename T>
void ParameterTable::Initialize(uint64_t seed, double init_std,
                                T* arena) const {
  for (int64_t i = 0; i < size_; ++i) arena[i] = 0;
  for (const Param& p : params_) {
    T* values = arena + p.offset;
    const uint64_t stream = base::StreamOf(p.name);
    for (int64_t i = 0; i < p.size(); ++i) {
      switch (p.init) {
        case ParamInit::kNormal:
          values[i] =
              static_cast<T>(init_std * base::RandomNormal(seed, stream, i));
          break;
        case ParamInit::kZero:
          values[i] = 0;
          break;
        case ParamInit::kOne:
          values[i] = 1;
          break;
      }
    }
  }
}

template void ParameterTable::Initialize<float>(uint64_t, double, float*) const;
template void ParameterTable::Initialize<double>(uint64_t, double,
                                                 double*) const;

}  // namespace gimbal::worker
