#include "worker/model/parameter_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace gimbal::worker {
namespace {

using ::testing::ElementsAre;

ModelSpec Model() {
  return {.layers = 4,
          .hidden = 6,
          .heads = 2,
          .context = 5,
          .vocab = 7,
          .mlp_hidden = 24};
}

StageSpec Whole(const ModelSpec& model) {
  return {.model = model,
          .blocks = model.layers,
          .first = true,
          .last = true,
          .microbatch = 1};
}

std::vector<std::string> Names(const ParameterTable& table) {
  std::vector<std::string> names;
  for (const Param& p : table.params()) names.push_back(p.name);
  return names;
}

TEST(ParameterTableTest, NamesOfOneBlock) {
  EXPECT_THAT(
      Names(ParameterTable::ForStage(
          {.model = Model(), .first_block = 2, .blocks = 1})),
      ElementsAre("h.2.ln1.weight", "h.2.ln1.bias", "h.2.attn.q.weight",
                  "h.2.attn.k.weight", "h.2.attn.v.weight", "h.2.attn.q.bias",
                  "h.2.attn.k.bias", "h.2.attn.v.bias", "h.2.attn.proj.weight",
                  "h.2.attn.proj.bias", "h.2.ln2.weight", "h.2.ln2.bias",
                  "h.2.mlp.fc.weight", "h.2.mlp.fc.bias", "h.2.mlp.proj.weight",
                  "h.2.mlp.proj.bias"));
}

TEST(ParameterTableTest, EndsAndOptionalBiases) {
  ModelSpec model = Model();
  model.layers = 0;
  model.head_bias = true;
  EXPECT_THAT(Names(ParameterTable::ForStage(Whole(model))),
              ElementsAre("wte", "wpe", "ln_f.weight", "ln_f.bias",
                          "lm_head.weight", "lm_head.bias"));
  model = Model();
  model.qkv_bias = false;
  for (const auto& name : Names(ParameterTable::ForStage(Whole(model)))) {
    EXPECT_EQ(name.find("attn.q.bias"), std::string::npos) << name;
    EXPECT_EQ(name.find("lm_head.bias"), std::string::npos) << name;
  }
}

TEST(ParameterTableTest, LayersShapesGroupsAndCount) {
  const auto table = ParameterTable::ForStage(Whole(Model()));
  EXPECT_EQ(table.at("wpe").layer, 0);
  EXPECT_EQ(table.at("wpe").group, ParamGroup::kEmbedding);
  EXPECT_EQ(table.at("h.3.mlp.fc.weight").layer, 4);
  EXPECT_EQ(table.at("h.3.mlp.fc.weight").group, ParamGroup::kMatrix);
  EXPECT_EQ(table.at("h.3.mlp.fc.weight").rows, 24);
  EXPECT_EQ(table.at("h.3.mlp.fc.weight").cols, 6);
  EXPECT_EQ(table.at("h.3.mlp.fc.bias").rows, 1);
  EXPECT_EQ(table.at("lm_head.weight").layer, 5);
  EXPECT_EQ(table.at("lm_head.weight").group, ParamGroup::kHead);
  EXPECT_EQ(table.at("ln_f.bias").group, ParamGroup::kVector);
  // 12 C^2 + 13 C per block; embeddings, norm and head.
  EXPECT_EQ(table.parameter_count(),
            4 * (12 * 36 + 13 * 6) + (7 + 5) * 6 + 2 * 6 + 7 * 6);
}

TEST(ParameterTableTest, TensorsAreAlignedAndQkvIsOneOperand) {
  const auto table = ParameterTable::ForStage(Whole(Model()));
  int64_t end = 0;
  for (const Param& p : table.params()) {
    EXPECT_GE(p.offset, end) << p.name;
    end = p.offset + p.size();
    const bool packed = p.name.find("attn.k") != std::string::npos ||
                        p.name.find("attn.v") != std::string::npos;
    if (packed) continue;
    EXPECT_EQ(p.offset % 16, 0) << p.name;
  }
  EXPECT_GE(table.size(), end);
  EXPECT_EQ(table.size() % 16, 0);
  EXPECT_EQ(table.at("h.0.attn.k.weight").offset,
            table.at("h.0.attn.q.weight").offset + 36);
  EXPECT_EQ(table.at("h.0.attn.v.bias").offset,
            table.at("h.0.attn.q.bias").offset + 12);
}

TEST(ParameterTableTest, InitialValuesDoNotDependOnTheSplit) {
  const ModelSpec model = Model();
  const auto whole = ParameterTable::ForStage(Whole(model));
  std::vector<float> reference(whole.size(), 99.0f);
  whole.Initialize(1337, 0.02, reference.data());
  std::set<std::string> seen;
  for (int stage = 0; stage < 4; ++stage) {
    const auto table = ParameterTable::ForStage({.model = model,
                                                 .first_block = stage,
                                                 .blocks = 1,
                                                 .first = stage == 0,
                                                 .last = stage == 3});
    std::vector<float> values(table.size(), 99.0f);
    table.Initialize(1337, 0.02, values.data());
    for (const Param& p : table.params()) {
      seen.insert(p.name);
      const Param& same = whole.at(p.name);
      for (int64_t i = 0; i < p.size(); ++i) {
        ASSERT_EQ(values[p.offset + i], reference[same.offset + i]) << p.name;
      }
    }
  }
  EXPECT_EQ(seen.size(), whole.params().size());
}

TEST(ParameterTableTest, InitialValuesFollowTheirKind) {
  ModelSpec model = Model();
  model.vocab = 4000;
  const auto table = ParameterTable::ForStage(Whole(model));
  std::vector<double> values(table.size(), 99.0);
  table.Initialize(1, 0.02, values.data());
  const Param& wte = table.at("wte");
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < wte.size(); ++i) {
    sum += values[wte.offset + i];
    squares += values[wte.offset + i] * values[wte.offset + i];
  }
  EXPECT_NEAR(sum / wte.size(), 0, 0.0006);
  EXPECT_NEAR(std::sqrt(squares / wte.size()), 0.02, 0.0004);
  EXPECT_EQ(values[table.at("ln_f.weight").offset], 1.0);
  EXPECT_EQ(values[table.at("ln_f.bias").offset], 0.0);
  // Padding between tensors.
  const Param& norm = table.at("ln_f.weight");
  EXPECT_EQ(values[norm.offset + norm.size()], 0.0);

  std::vector<double> other(table.size());
  table.Initialize(2, 0.02, other.data());
  EXPECT_NE(values[wte.offset], other[wte.offset]);
}

TEST(ParameterTableDeathTest, UnknownNameAborts) {
  const auto table = ParameterTable::ForStage(Whole(Model()));
  EXPECT_DEATH(table.at("h.9.ln1.weight"), "no parameter named h.9.ln1.weight");
}

}  // namespace
}  // namespace gimbal::worker
