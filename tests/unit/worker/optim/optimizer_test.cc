#include "worker/optim/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/support/methods.h"
#include "tests/unit/worker/optim/optim_test_util.h"

namespace gimbal::worker {
namespace {

using test_support::AllOptimizers;
using test_support::NamedOptimizer;

class EveryOptimizer : public ::testing::TestWithParam<NamedOptimizer> {
 protected:
  const OptimizerSpec spec_ = GetParam().spec;
  const ParameterTable table_ = SmallTable(8, 12, /*layers=*/2);
};

INSTANTIATE_TEST_SUITE_P(, EveryOptimizer, ::testing::ValuesIn(AllOptimizers()),
                         [](const auto& info) { return info.param.name; });

void StepTo(Optimizer<float>& optimizer, const ParameterTable& table,
            int64_t update, const float* old_weights, float* new_weights) {
  const auto grads = RandomGradient<float>(table, update);
  optimizer.Step(
      {.update = update, .lr = 0.01, .refresh = update % 5 == 0, .scale = 0.7},
      old_weights, grads.data(), new_weights);
}

TEST_P(EveryOptimizer, InPlaceEqualsOutOfPlace) {
  const auto in_place = std::make_unique<Optimizer<float>>(spec_, table_);
  const auto out_of_place = std::make_unique<Optimizer<float>>(spec_, table_);
  auto weights = RandomWeights<float>(table_);
  auto older = weights;
  std::vector<float> newer(table_.size());
  for (int t = 1; t <= 12; ++t) {
    const auto before = older;
    StepTo(*in_place, table_, t, weights.data(), weights.data());
    StepTo(*out_of_place, table_, t, older.data(), newer.data());
    ASSERT_EQ(older, before) << "old weights changed at update " << t;
    ASSERT_EQ(newer, weights) << "update " << t;
    std::swap(older, newer);
  }
}

TEST_P(EveryOptimizer, SavedStateContinuesBitForBit) {
  for (int saved_at : {1, 5, 7}) {
    const auto first = std::make_unique<Optimizer<float>>(spec_, table_);
    const auto second = std::make_unique<Optimizer<float>>(spec_, table_);
    auto weights = RandomWeights<float>(table_);
    for (int t = 1; t <= saved_at; ++t) {
      StepTo(*first, table_, t, weights.data(), weights.data());
    }
    auto restored = weights;
    const auto from = first->State(), to = second->State();
    ASSERT_EQ(from.size(), to.size());
    for (size_t i = 0; i < from.size(); ++i) {
      ASSERT_EQ(from[i].name, to[i].name);
      std::vector<float> values(from[i].size());
      from[i].Save(values.data());
      to[i].Load(values.data());
    }
    for (int t = saved_at + 1; t <= 16; ++t) {
      StepTo(*first, table_, t, weights.data(), weights.data());
      StepTo(*second, table_, t, restored.data(), restored.data());
      ASSERT_EQ(restored, weights) << "update " << t;
    }
  }
}

TEST_P(EveryOptimizer, ASplitModelGetsTheSameWeights) {
  const ModelSpec model{.layers = 3,
                        .hidden = 8,
                        .heads = 1,
                        .context = 3,
                        .vocab = 5,
                        .mlp_hidden = 12};
  const auto whole = ParameterTable::ForStage(
      {.model = model, .blocks = 3, .first = true, .last = true});
  const auto part = ParameterTable::ForStage(
      {.model = model, .first_block = 2, .blocks = 1, .last = true});
  const auto whole_optimizer = std::make_unique<Optimizer<float>>(spec_, whole);
  const auto part_optimizer = std::make_unique<Optimizer<float>>(spec_, part);
  auto whole_weights = RandomWeights<float>(whole);
  auto part_weights = RandomWeights<float>(part);
  for (int t = 1; t <= 7; ++t) {
    StepTo(*whole_optimizer, whole, t, whole_weights.data(),
           whole_weights.data());
    StepTo(*part_optimizer, part, t, part_weights.data(), part_weights.data());
  }
  for (const Param& p : part.params()) {
    const int64_t offset = whole.at(p.name).offset;
    EXPECT_TRUE(std::equal(part_weights.begin() + p.offset,
                           part_weights.begin() + p.offset + p.size(),
                           whole_weights.begin() + offset))
        << p.name;
  }
}

TEST_P(EveryOptimizer, BytesAreKnownBeforehand) {
  for (const auto& table : {SmallTable(8, 12, 2), SmallTable(16, 16),
                            SmallTable(1, 5), SmallTable(4, 200)}) {
    const auto optimizer = std::make_unique<Optimizer<float>>(spec_, table);
    EXPECT_EQ(Optimizer<float>::Count(spec_, table).held,
              optimizer->bytes().held);
    int64_t tensors = 0;
    for (const auto& tensor : optimizer->State()) {
      tensors += tensor.rows * tensor.cols;
    }
    EXPECT_EQ(optimizer->bytes().state, 4 * tensors);
    EXPECT_EQ(Optimizer<float>::Count(spec_, table).state, 4 * tensors);
  }
}

TEST_P(EveryOptimizer, AStageWithoutMatricesWorks) {
  const auto table = ParameterTable::ForStage(
      {.model = {.layers = 1, .hidden = 4, .context = 2, .vocab = 3},
       .first = true});
  const auto optimizer = std::make_unique<Optimizer<float>>(spec_, table);
  auto weights = RandomWeights<float>(table);
  const auto before = weights;
  StepTo(*optimizer, table, 1, weights.data(), weights.data());
  EXPECT_NE(weights, before);
  EXPECT_EQ(Optimizer<float>::Count(spec_, table).held,
            optimizer->bytes().held);
}

TEST(LayerSquareSums, OneExactNumberPerLayer) {
  const ParameterTable table = SmallTable(4, 6, /*layers=*/2);
  std::vector<float> grads(table.size());
  std::vector<double> expected(4);
  for (const Param& p : table.params()) {
    for (int64_t i = 0; i < p.size(); ++i) {
      grads[p.offset + i] = static_cast<float>(i % 5 + p.layer);
      expected[p.layer] += std::pow(grads[p.offset + i], 2);
    }
  }
  EXPECT_EQ(LayerSquareSums(table, grads.data()), expected);
}

TEST(LayerSquareSums, TotalDoesNotDependOnTheSplit) {
  const ModelSpec model{.layers = 4,
                        .hidden = 5,
                        .heads = 1,
                        .context = 3,
                        .vocab = 7,
                        .mlp_hidden = 9};
  const auto sums = [&](int first, int blocks) {
    const auto table = ParameterTable::ForStage({.model = model,
                                                 .first_block = first,
                                                 .blocks = blocks,
                                                 .first = first == 0,
                                                 .last = first + blocks == 4});
    return LayerSquareSums(table, RandomGradient<float>(table, 1).data());
  };
  const auto whole = sums(0, 4);
  ASSERT_EQ(whole.size(), 6u);
  for (int split = 1; split <= 3; ++split) {
    auto front = sums(0, split);
    const auto back = sums(split, 4 - split);
    front.insert(front.end(), back.begin(), back.end());
    EXPECT_EQ(front, whole);
  }
}

TEST(LayerSquareSums, ManySmallNumbersAreNotLost) {
  const ParameterTable table = SmallTable(32, 4000);
  std::vector<float> grads(table.size());
  for (const Param& p : table.params()) {
    std::fill_n(grads.begin() + p.offset, p.size(), 0.1f);
  }
  double count = 0;
  for (const Param& p : table.params()) {
    if (p.layer == 1) count += static_cast<double>(p.size());
  }
  const double expected = count * 0.1f * 0.1f;
  EXPECT_NEAR(LayerSquareSums(table, grads.data())[1] / expected, 1, 1e-7);
}

TEST(ClipScale, ShrinksWhatIsTooLongAlone) {
  EXPECT_DOUBLE_EQ(ClipScale(25, 1), 1 / (5 + 1e-6));
  EXPECT_DOUBLE_EQ(ClipScale(25, 2.5), 2.5 / (5 + 1e-6));
  EXPECT_EQ(ClipScale(25, 10), 1);
  EXPECT_EQ(ClipScale(0, 1), 1);
}

TEST(ClipScale, LimitZeroMeansNone) { EXPECT_EQ(ClipScale(1e12, 0), 1); }

}  // namespace
}  // namespace gimbal::worker
