#include "worker/agent/stage_host.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "tests/support/local_pipeline.h"
#include "tests/support/status_matchers.h"

namespace gimbal::worker {
namespace {

using test_support::IsOk;
using test_support::StatusIs;

// Tells of every piece that is read.
class WatchedTokens : public TokenSource {
 public:
  WatchedTokens(const TokenSource& tokens, std::function<void()> on_read)
      : tokens_(tokens), on_read_(std::move(on_read)) {}

  int64_t size() const override { return tokens_.size(); }
  void Read(int64_t begin, int64_t count, int32_t* out) const override {
    on_read_();
    tokens_.Read(begin, count, out);
  }

 private:
  const TokenSource& tokens_;
  const std::function<void()> on_read_;
};

// The one stage of a small model, at its initial weights.
class StageHostTest : public ::testing::Test {
 protected:
  std::unique_ptr<StageRunner> Runner() {
    auto runner = std::make_unique<StageRunner>(
        StageOptions{.spec = {.stage = test_support::SplitEvenly(
                                  options_.model, 1, options_.microbatch)[0],
                              .schedule = options_.schedule,
                              .update = {.optimizer = options_.optimizer,
                                         .lr = options_.lr}},
                     .eval_batches = 1000,
                     .train = &train_,
                     .valid = &valid_},
        StageEvents{.updated = [this](const UpdateReport&) { ++updates_; },
                    .evaluated = [this](int64_t, double) { ++evaluations_; }});
    runner->state().Initialize(7, 0.3);
    return runner;
  }

  // What an assignment's thread does.
  std::thread Run(StageHost& host) {
    return std::thread([&] {
      host.Add(Runner());
      host.Start(0);
      result_ = host.Run();
    });
  }

  const test_support::PipelineOptions options_;
  const std::unique_ptr<TokenSource> tokens_ =
      test_support::RandomTokens(1000, 19, 1);
  const BatchSampler train_{*tokens_, 8, options_.microbatch, 7, true};
  std::function<void()> on_evaluation_read_ = [] {};
  const WatchedTokens valid_tokens_{*tokens_,
                                    [this] { on_evaluation_read_(); }};
  const BatchSampler valid_{valid_tokens_, 8, options_.microbatch, 7, false};
  Signal signal_;
  absl::Status result_;
  std::atomic<int> updates_ = 0;
  int evaluations_ = 0;
};

TEST_F(StageHostTest, GrantsOfAnyTimeCountAndStatusIsThereFromTheStart) {
  StageHost host(signal_);
  EXPECT_TRUE(host.Statuses().empty());
  host.Extend({.until = 2, .final_update = 20});  // before the executor
  std::thread thread = Run(host);
  while (updates_ < 2) {
    for (const auto& [stage, status] : host.Statuses()) EXPECT_EQ(stage, 0);
    std::this_thread::yield();
  }
  for (int64_t until = 3; until <= 20; ++until) {
    host.Extend({.until = until, .final_update = 20});
  }
  thread.join();
  EXPECT_THAT(result_, IsOk());
  ASSERT_EQ(host.Statuses().size(), 1u);
  EXPECT_EQ(host.Statuses()[0].second.weight_version, 20);
  EXPECT_EQ(host.Find(1), nullptr);
}

TEST_F(StageHostTest, IsCancelledAtAnyTime) {
  for (const int updates_before : {-1, 0, 3}) {
    updates_ = 0;
    StageHost host(signal_);
    if (updates_before < 0) host.Cancel();
    host.Extend({.until = 3, .final_update = 20});
    std::thread thread = Run(host);
    while (updates_ < updates_before) std::this_thread::yield();
    host.Cancel();
    thread.join();
    EXPECT_THAT(result_, StatusIs(absl::StatusCode::kCancelled));
    EXPECT_TRUE(host.cancelled());
  }
}

// A long evaluation once had to be waited for.
TEST_F(StageHostTest, IsCancelledBetweenTheBatchesOfAnEvaluation) {
  StageHost host(signal_);
  int reads = 0;
  on_evaluation_read_ = [&] {
    if (++reads == 100) host.Cancel();
  };
  host.Extend(
      {.until = 1, .final_update = 1, .cuts = {{1, {.evaluate = true}}}});
  Run(host).join();
  EXPECT_THAT(result_, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(evaluations_, 0);
  EXPECT_LT(reads, 200);
}

TEST_F(StageHostTest, AnEvaluationIsReportedOnceWhenAllItsBatchesAreDone) {
  StageHost host(signal_);
  int reads = 0;
  on_evaluation_read_ = [&] { ++reads; };
  host.Extend(
      {.until = 2, .final_update = 2, .cuts = {{1, {.evaluate = true}}}});
  Run(host).join();
  EXPECT_THAT(result_, IsOk());
  EXPECT_EQ(evaluations_, 1);
  EXPECT_GE(reads, 1000 * options_.microbatch);
}

}  // namespace
}  // namespace gimbal::worker
