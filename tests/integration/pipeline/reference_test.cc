// The pipeline against a plain program that knows nothing of pipelines: the
// whole model on one thread, a list of old weights, and for each microbatch the
// gradient at the composite point of the versions that the stages' delays name,
// averaged over the update's microbatches and applied to the newest weights.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "tests/support/local_pipeline.h"
#include "tests/support/methods.h"
#include "tests/support/status_matchers.h"
#include "worker/compute/runtime.h"

namespace gimbal::worker {
namespace {

using test_support::IsOk;
using test_support::PipelineOptions;
using test_support::PipelineResult;
using test_support::RunPipeline;

using Arena = std::vector<float>;

class Reference {
 public:
  // `behind[s]`: microbatches that the stage's forward of j is ahead of the
  // newest backward, so that it sees the version of update (j - behind) / a.
  Reference(const PipelineOptions& options, std::vector<int64_t> behind)
      : options_(options),
        behind_(std::move(behind)),
        tokens_(test_support::RandomTokens(3000, options.model.vocab, 1)),
        batches_(*tokens_, options.model.context, options.microbatch,
                 options.seed, true),
        whole_({.model = options.model,
                .blocks = options.model.layers,
                .first = true,
                .last = true,
                .microbatch = options.microbatch}),
        slot_(whole_.NewSlot()) {
    const int stages = static_cast<int>(behind_.size());
    for (const StageSpec& spec :
         test_support::SplitEvenly(options.model, stages, options.microbatch)) {
      tables_.push_back(
          std::make_unique<ParameterTable>(ParameterTable::ForStage(spec)));
      optimizers_.push_back(std::make_unique<Optimizer<float>>(
          options.optimizer, *tables_.back()));
      Arena weights(static_cast<size_t>(tables_.back()->size()));
      tables_.back()->Initialize(options.seed, 0.3, weights.data());
      history_.push_back({weights});
    }
  }

  // Loss of update t, which is then applied.
  double Update(int64_t t) {
    const int a = options_.schedule.accumulate;
    Arena gradient(static_cast<size_t>(whole_.table().size()));
    double loss = 0;
    for (int64_t j = (t - 1) * a; j < t * a; ++j) loss += Add(j, &gradient);
    for (size_t s = 0; s < tables_.size(); ++s) UpdateStage(s, t, gradient);
    return loss / a;
  }

  Arena Weights(size_t stage, const std::string& name) const {
    const Param& p = tables_[stage]->at(name);
    const auto begin = history_[stage].back().begin() + p.offset;
    return Arena(begin, begin + p.size());
  }
  const ParameterTable& table(size_t stage) const { return *tables_[stage]; }

 private:
  // Adds the gradient of microbatch j, over the number of them per update; its
  // loss.
  double Add(int64_t j, Arena* gradient) {
    const int a = options_.schedule.accumulate;
    Arena composite(gradient->size());
    for (size_t s = 0; s < tables_.size(); ++s) {
      const int64_t version = std::max<int64_t>(0, j - behind_[s]) / a;
      const Arena& old = history_[s][static_cast<size_t>(version)];
      for (const Param& p : tables_[s]->params()) {
        std::copy_n(old.begin() + p.offset, p.size(),
                    composite.begin() + whole_.table().at(p.name).offset);
      }
    }
    const auto samples =
        static_cast<size_t>(options_.microbatch * options_.model.context);
    std::vector<int32_t> tokens(samples), targets(samples);
    batches_.Fill(j, tokens.data(), targets.data());
    whole_.Forward(composite.data(), {.tokens = tokens, .targets = targets},
                   slot_.get());
    whole_.Backward(composite.data(), nullptr, 1.0 / a, slot_.get(),
                    gradient->data(), nullptr);
    return whole_.loss(*slot_);
  }

  void UpdateStage(size_t s, int64_t t, const Arena& gradient) {
    Arena mine(static_cast<size_t>(tables_[s]->size()));
    for (const Param& p : tables_[s]->params()) {
      std::copy_n(gradient.begin() + whole_.table().at(p.name).offset, p.size(),
                  mine.begin() + p.offset);
    }
    double squares = 0;
    const auto layers = LayerSquareSums(*tables_[s], mine.data());
    for (size_t i = layers.size(); i-- > 0;) squares += layers[i];
    Arena next(mine.size());
    const bool refresh = t == 1 || t % options_.refresh_period == 0;
    optimizers_[s]->Step({.update = t,
                          .lr = LearningRate(options_.lr, t),
                          .refresh = refresh,
                          .scale = ClipScale(squares, options_.clip)},
                         history_[s].back().data(), mine.data(), next.data());
    history_[s].push_back(next);
  }

  const PipelineOptions options_;
  const std::vector<int64_t> behind_;
  const std::unique_ptr<TokenSource> tokens_;
  const BatchSampler batches_;
  Stage<float> whole_;
  const Stage<float>::SlotPtr slot_;
  std::vector<std::unique_ptr<ParameterTable>> tables_;
  std::vector<std::unique_ptr<Optimizer<float>>> optimizers_;
  std::vector<std::vector<Arena>> history_;  // by stage, by version
};

void ExpectSameNumbers(const PipelineOptions& options,
                       std::vector<int64_t> behind) {
  const PipelineResult result = RunPipeline(options);
  ASSERT_THAT(result.status, IsOk());
  compute::PrepareComputeThread();
  Reference reference(options, behind);
  for (int64_t t = 1; t <= options.updates; ++t) {
    ASSERT_EQ(result.losses.at(t), reference.Update(t)) << "update " << t;
  }
  for (size_t s = 0; s < behind.size(); ++s) {
    for (const Param& p : reference.table(s).params()) {
      EXPECT_EQ(result.weights.at(p.name), reference.Weights(s, p.name))
          << p.name;
    }
  }
}

TEST(Reference, FourAsynchronousStages) {
  for (const auto& optimizer : test_support::AllOptimizers()) {
    PipelineOptions options;
    options.schedule = {ScheduleKind::kAsync1F1B, 4, 1};
    options.optimizer = optimizer.spec;
    options.workers = 2;
    options.updates = 20;
    ExpectSameNumbers(options, {3, 2, 1, 0});
  }
}

// Updates average over their microbatches, each at versions of its own.
TEST(Reference, FourAsynchronousStagesThatAccumulate) {
  for (const int accumulate : {2, 3}) {
    PipelineOptions options;
    options.schedule = {ScheduleKind::kAsync1F1B, 4, accumulate};
    options.updates = 12;
    ExpectSameNumbers(options, {3, 2, 1, 0});
  }
}

// Delay 0 is the plain optimizer, bit for bit.
TEST(Reference, DelayZeroIsThePlainOptimizer) {
  for (const auto& optimizer : test_support::AllOptimizers()) {
    for (const ScheduleKind kind :
         {ScheduleKind::kAsync1F1B, ScheduleKind::k1F1B,
          ScheduleKind::kGPipe}) {
      PipelineOptions options;
      options.schedule = {kind, 1, 1, kind != ScheduleKind::kAsync1F1B};
      options.optimizer = optimizer.spec;
      ExpectSameNumbers(options, {0});
    }
  }
}

}  // namespace
}  // namespace gimbal::worker
