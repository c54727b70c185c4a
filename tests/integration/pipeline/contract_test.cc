// One config, one sequence of numbers: whatever the number of workers, whatever
// the load, whenever it was stopped and restarted.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "tests/support/local_pipeline.h"
#include "tests/support/methods.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::worker {
namespace {

using test_support::IsOk;
using test_support::PipelineOptions;
using test_support::PipelineResult;
using test_support::RunPipeline;

// Stages meet as in the other tests; there is nothing more for TSan to see, and
// it would take long.
#ifdef __SANITIZE_THREAD__
constexpr bool kUnderTsan = true;
#else
constexpr bool kUnderTsan = false;
#endif

struct Case {
  ScheduleKind kind;
  int stages;
  int accumulate;
};

PipelineOptions OptionsOf(const Case& test_case) {
  PipelineOptions options;
  options.model.layers = std::max(4, test_case.stages);
  options.schedule = {test_case.kind, test_case.stages, test_case.accumulate,
                      test_case.kind == ScheduleKind::k1F1B ||
                          test_case.kind == ScheduleKind::kGPipe};
  options.cuts[4] = {.evaluate = true};
  options.cuts[12] = {.evaluate = true};
  return options;
}

// Restarts from the cut after update 7 of 12, on two workers.
void ExpectSameAfterARestart(const PipelineOptions& given) {
  const test_support::TempDir folder;
  PipelineOptions options = given;
  options.checkpoint_root = folder.path();
  const PipelineResult whole = RunPipeline(options);
  ASSERT_THAT(whole.status, IsOk());

  PipelineOptions first = options;
  first.updates = 7;
  first.fed_updates = 12;
  first.cuts.erase(12);
  first.cuts[7] = {.snapshot = true};
  ASSERT_THAT(RunPipeline(first).status, IsOk());

  PipelineOptions second = options;
  second.start = 7;
  second.workers = std::min(2, options.schedule.stages);
  const PipelineResult rest = RunPipeline(second);
  ASSERT_THAT(rest.status, IsOk());
  EXPECT_EQ(rest.losses.size(), 5u);
  for (const auto& [update, loss] : rest.losses) {
    EXPECT_EQ(loss, whole.losses.at(update)) << update;
    EXPECT_EQ(rest.squares.at(update), whole.squares.at(update)) << update;
    EXPECT_EQ(rest.staleness.at(update), whole.staleness.at(update)) << update;
  }
  EXPECT_EQ(rest.weights, whole.weights);
  EXPECT_EQ(rest.evaluations.at(12), whole.evaluations.at(12));
}

class Contract : public ::testing::TestWithParam<Case> {};

TEST_P(Contract, NumbersDoNotDependOnTheWorkers) {
  PipelineOptions options = OptionsOf(GetParam());
  const PipelineResult reference = RunPipeline(options);
  ASSERT_THAT(reference.status, IsOk());
  ASSERT_EQ(reference.losses.size(), 12u);
  ASSERT_EQ(reference.evaluations.size(), 2u);
  for (const int workers : {2, options.schedule.stages}) {
    if (workers > options.schedule.stages) continue;
    options.workers = workers;
    const PipelineResult result = RunPipeline(options);
    ASSERT_THAT(result.status, IsOk());
    EXPECT_TRUE(result.SameNumbers(reference)) << workers << " workers";
  }
}

TEST_P(Contract, StalenessIsTheDelay) {
  const PipelineOptions options = OptionsOf(GetParam());
  const PipelineResult result = RunPipeline(options);
  for (const auto& [update, staleness] : result.staleness) {
    for (int s = 0; s < options.schedule.stages; ++s) {
      const int64_t distance = options.schedule.stages - 1 - s;
      const int64_t a = options.schedule.accumulate;
      int64_t delay = 0;
      if (options.schedule.kind == ScheduleKind::k2BW) delay = 1;
      if (options.schedule.kind == ScheduleKind::kAsync1F1B) {
        delay = (distance + a - 1) / a;
      }
      EXPECT_EQ(staleness[static_cast<size_t>(s)], std::min(delay, update - 1))
          << "stage " << s << ", update " << update;
    }
  }
}

TEST_P(Contract, RestartFromACutGoesOnWithTheSameNumbers) {
  ExpectSameAfterARestart(OptionsOf(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(All, Contract, ::testing::ValuesIn([] {
                           std::vector<Case> cases;
                           for (ScheduleKind kind :
                                {ScheduleKind::kAsync1F1B, ScheduleKind::k1F1B,
                                 ScheduleKind::kGPipe}) {
                             for (const int stages : {1, 2, 4, 8}) {
                               for (const int accumulate : {1, 3}) {
                                 cases.push_back({kind, stages, accumulate});
                               }
                             }
                           }
                           cases.push_back({ScheduleKind::k2BW, 1, 1});
                           cases.push_back({ScheduleKind::k2BW, 2, 3});
                           cases.push_back({ScheduleKind::k2BW, 4, 4});
                           return cases;
                         }()));

// Every optimizer and every mitigation, asynchronous on four stages: the same
// numbers on one, two and four workers, and after a restart.
void ExpectContract(const PipelineOptions& given, bool leaves_out = false) {
  PipelineOptions options = given;
  // On both sides of the restart; a refresh is among them.
  if (leaves_out) options.left_out = {{5, 6}, {9, 10}};
  const PipelineResult reference = RunPipeline(options);
  ASSERT_THAT(reference.status, IsOk());
  for (const int workers : {2, 4}) {
    if (leaves_out && workers == 2) continue;  // that of the restart
    options.workers = workers;
    EXPECT_TRUE(RunPipeline(options).SameNumbers(reference))
        << workers << " workers";
  }
  ExpectSameAfterARestart(options);
  if (!leaves_out && !kUnderTsan) ExpectContract(given, /*leaves_out=*/true);
}

// Four stages up to update 7, then `stages` up to 12.
struct GoingOver {
  explicit GoingOver(const PipelineOptions& given) : options(given) {
    options.checkpoint_root = folder.path();
    options.cuts = {{7, {.snapshot = true}}};
    PipelineOptions first = options;
    first.updates = 7;
    first.fed_updates = 12;
    EXPECT_THAT(RunPipeline(first).status, IsOk());
    options.cuts = {{10, {.snapshot = true}}};
  }

  PipelineResult Run(int stages, int64_t start, int workers) {
    PipelineOptions rest = options;
    rest.schedule.stages = stages;
    rest.schedule.origin = 7;
    rest.start = start;
    rest.workers = workers;
    PipelineResult result = RunPipeline(rest);
    EXPECT_THAT(result.status, IsOk());
    return result;
  }

  const test_support::TempDir folder;
  PipelineOptions options;
};

// A run goes over to more and to fewer stages: the same numbers on any workers
// and after a restart, and staleness grows from 0 again.
void ExpectGoesOver(const PipelineOptions& options) {
  GoingOver run(options);
  for (const int stages : {1, 2, 3}) {
    SCOPED_TRACE(stages);
    const PipelineResult one = run.Run(stages, 7, 1);
    ASSERT_EQ(one.losses.size(), 5u);
    for (int64_t update = 8; update <= 12; ++update) {
      const int64_t sync = options.schedule.sync_every;
      const int64_t empty =
          sync > 0 ? std::max<int64_t>(7, (update - 1) / sync * sync) : 7;
      const int64_t delay =
          options.schedule.kind == ScheduleKind::k2BW ? 1 : stages - 1;
      EXPECT_EQ(one.staleness.at(update)[0],
                std::min(delay, update - empty - 1));
    }
    EXPECT_TRUE(run.Run(stages, 7, stages).SameNumbers(one));
    const PipelineResult restarted = run.Run(stages, 10, 1);
    EXPECT_EQ(restarted.losses.at(12), one.losses.at(12));
    EXPECT_EQ(restarted.weights, one.weights);
  }
}

TEST(GoingOver, WithTwoVersions) {
  ExpectGoesOver(OptionsOf({ScheduleKind::k2BW, 4, 4}));
}

// What is rounded on its way is rounded also where it stays in the process.
TEST(EveryWire, HoldsTheContract) {
  const PipelineOptions exact = OptionsOf({ScheduleKind::kAsync1F1B, 4, 1});
  const PipelineResult fp32 = RunPipeline(exact);
  for (const auto& [wire, near] :
       {std::pair(compute::WireFormat::kBf16, 0.02),
        std::pair(compute::WireFormat::kInt8, 0.05)}) {
    for (const bool stash : {true, false}) {
      PipelineOptions options = exact;
      options.wire = wire;
      options.schedule.stash = stash;
      ExpectContract(options);
    }
    PipelineOptions options = exact;
    options.wire = wire;
    const PipelineResult rounded = RunPipeline(options);
    for (const auto& [update, loss] : fp32.losses) {
      EXPECT_NE(rounded.losses.at(update), loss) << update;
      EXPECT_NEAR(rounded.losses.at(update), loss, near * loss) << update;
    }
  }
}

class EveryOptimizer
    : public ::testing::TestWithParam<test_support::NamedOptimizer> {};

TEST_P(EveryOptimizer, HoldsTheContract) {
  PipelineOptions options = OptionsOf({ScheduleKind::kAsync1F1B, 4, 1});
  options.optimizer = GetParam().spec;
  ExpectContract(options);
}

TEST_P(EveryOptimizer, GoesOverToOtherStages) {
  if (kUnderTsan) GTEST_SKIP() << "nothing more for TSan to see";
  PipelineOptions options = OptionsOf({ScheduleKind::kAsync1F1B, 4, 1});
  options.optimizer = GetParam().spec;
  ExpectGoesOver(options);
}

// Weights, moments and bases come along whole: where no stage has a delay, the
// number of stages cannot be seen.
TEST_P(EveryOptimizer, GoesOnWithEveryNumberOfASynchronousRun) {
  if (kUnderTsan) GTEST_SKIP() << "nothing more for TSan to see";
  PipelineOptions options = OptionsOf({ScheduleKind::kGPipe, 4, 3});
  options.optimizer = GetParam().spec;
  options.cuts.clear();
  const PipelineResult whole = RunPipeline(options);
  ASSERT_THAT(whole.status, IsOk());
  GoingOver run(options);
  for (const int stages : {1, 2, 3, 4}) {
    const PipelineResult rest = run.Run(stages, 7, 1);
    for (const auto& [update, loss] : rest.losses) {
      EXPECT_EQ(loss, whole.losses.at(update)) << update;
    }
    EXPECT_EQ(rest.weights, whole.weights) << stages << " stages";
  }
}

INSTANTIATE_TEST_SUITE_P(, EveryOptimizer,
                         ::testing::ValuesIn(test_support::AllOptimizers()),
                         [](const auto& info) { return info.param.name; });

class EveryMitigation
    : public ::testing::TestWithParam<test_support::NamedMitigation> {
 protected:
  static PipelineOptions Options(int stages, int accumulate) {
    PipelineOptions options =
        OptionsOf({ScheduleKind::kAsync1F1B, stages, accumulate});
    const test_support::NamedMitigation& method = GetParam();
    options.optimizer = method.optimizer;
    options.mitigation = method.spec;
    options.schedule.stash = method.stash;
    options.schedule.sync_every = method.sync_every;
    return options;
  }
};

TEST_P(EveryMitigation, HoldsTheContract) {
  for (const int accumulate : {1, 2}) {
    ExpectContract(Options(4, accumulate));
  }
}

TEST_P(EveryMitigation, GoesOverToOtherStages) {
  if (kUnderTsan) GTEST_SKIP() << "nothing more for TSan to see";
  ExpectGoesOver(Options(4, 1));
}

// Where the pipeline runs empty anyway, going over to the same stages changes
// nothing: what a mitigation knows comes along.
TEST_P(EveryMitigation, KeepsItsStateWhenItGoesOver) {
  if (kUnderTsan) GTEST_SKIP() << "nothing more for TSan to see";
  // The first version after an origin is not predicted.
  if (GetParam().spec.weight_prediction) GTEST_SKIP();
  PipelineOptions options = Options(4, 1);
  options.cuts.clear();
  options.schedule.sync_every = 7;
  const PipelineResult whole = RunPipeline(options);
  ASSERT_THAT(whole.status, IsOk());
  GoingOver run(options);
  const PipelineResult rest = run.Run(4, 7, 1);
  for (const auto& [update, loss] : rest.losses) {
    EXPECT_EQ(loss, whole.losses.at(update)) << update;
  }
  EXPECT_EQ(rest.weights, whole.weights);
}

// It does something where there is delay, and nothing where there is none.
TEST_P(EveryMitigation, LeavesDelayZeroAlone) {
  PipelineOptions mitigated = Options(1, 1);
  PipelineOptions plain = OptionsOf({ScheduleKind::kAsync1F1B, 1, 1});
  plain.optimizer = mitigated.optimizer;
  EXPECT_TRUE(RunPipeline(mitigated).SameNumbers(RunPipeline(plain)));
}

TEST_P(EveryMitigation, ChangesWhatIsStale) {
  PipelineOptions mitigated = Options(4, 1);
  PipelineOptions plain = OptionsOf({ScheduleKind::kAsync1F1B, 4, 1});
  plain.optimizer = mitigated.optimizer;
  EXPECT_NE(RunPipeline(mitigated).losses, RunPipeline(plain).losses);
}

INSTANTIATE_TEST_SUITE_P(, EveryMitigation,
                         ::testing::ValuesIn(test_support::AllMitigations()),
                         [](const auto& info) { return info.param.name; });

TEST(LeftOut, ChangesNoWeight) {
  for (const ScheduleKind kind :
       {ScheduleKind::kAsync1F1B, ScheduleKind::kGPipe}) {
    PipelineOptions options = OptionsOf({kind, 4, 1});
    options.cuts.clear();
    options.left_out = {{12, 12}};
    const PipelineResult result = RunPipeline(options);
    ASSERT_THAT(result.status, IsOk());
    options.updates = 11;
    options.left_out.clear();
    EXPECT_EQ(result.weights, RunPipeline(options).weights);
  }
}

// A gradient that is no number stays where it is, if its update is left out.
TEST(LeftOut, WhatIsNotFiniteDoesNotSpread) {
  PipelineOptions options = OptionsOf({ScheduleKind::kAsync1F1B, 4, 1});
  options.left_out = {{6, 6}};
  const PipelineResult healthy = RunPipeline(options);
  ASSERT_THAT(healthy.status, IsOk());
  options.poisoned_update = 6;
  options.poisoned_stage = 2;
  PipelineResult poisoned = RunPipeline(options);
  ASSERT_THAT(poisoned.status, IsOk());
  double& square = poisoned.squares.at(6).at(2);
  EXPECT_TRUE(std::isnan(square));
  square = healthy.squares.at(6).at(2);
  EXPECT_TRUE(poisoned.SameNumbers(healthy));

  options.left_out.clear();
  EXPECT_TRUE(std::isnan(RunPipeline(options).losses.at(12)))
      << "the test would show nothing";
}

TEST(DeepPipeline, ThirtyTwoStagesOnOneAndTwoWorkers) {
  PipelineOptions options = OptionsOf({ScheduleKind::kAsync1F1B, 32, 1});
  options.updates = 40;
  options.lr.steps = 40;
  options.cuts.erase(12);
  const PipelineResult one = RunPipeline(options);
  ASSERT_THAT(one.status, IsOk());
  EXPECT_EQ(one.staleness.at(40)[0], 31);
  options.workers = 2;
  EXPECT_TRUE(RunPipeline(options).SameNumbers(one));
}

TEST(ContractUnderLoad, BusyNeighboursChangeNothing) {
  PipelineOptions options = OptionsOf({ScheduleKind::kAsync1F1B, 4, 1});
  const PipelineResult quiet = RunPipeline(options);
  std::atomic<bool> stop = false;
  std::vector<std::thread> load;
  for (int i = 0; i < 4; ++i) {
    load.emplace_back([&stop] {
      while (!stop) {
      }
    });
  }
  options.workers = 4;
  for (int round = 0; round < 5; ++round) {
    EXPECT_TRUE(RunPipeline(options).SameNumbers(quiet));
  }
  stop = true;
  for (std::thread& thread : load) thread.join();
}

// Synchronous schedules: the split changes nothing at all, gpipe and 1f1b
// agree.
TEST(Synchronous, StageCountAndScheduleChangeNothing) {
  const PipelineResult one =
      RunPipeline(OptionsOf({ScheduleKind::kGPipe, 1, 3}));
  for (const ScheduleKind kind : {ScheduleKind::kGPipe, ScheduleKind::k1F1B}) {
    for (const int stages : {1, 2, 4}) {
      const PipelineResult result = RunPipeline(OptionsOf({kind, stages, 3}));
      EXPECT_EQ(result.losses, one.losses);
      EXPECT_EQ(result.weights, one.weights);
      EXPECT_EQ(result.evaluations, one.evaluations);
    }
  }
}

double LargestDifference(const std::vector<float>& a,
                         const std::vector<float>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(double{a[i]} - double{b[i]}));
  }
  return worst;
}

// An update is the average over its samples, however they are cut into
// microbatches: 6 x 1, 3 x 2 and 2 x 3 samples.
TEST(Synchronous, MicrobatchSplitsAgree) {
  std::vector<PipelineResult> results;
  for (const auto& [microbatch, accumulate] :
       {std::pair{6, 1}, {3, 2}, {2, 3}}) {
    PipelineOptions options = OptionsOf({ScheduleKind::kGPipe, 2, accumulate});
    options.optimizer = {.kind = OptimizerKind::kSgd};
    options.microbatch = microbatch;
    options.cuts.clear();
    results.push_back(RunPipeline(options));
    ASSERT_THAT(results.back().status, IsOk());
  }
  for (size_t k = 1; k < results.size(); ++k) {
    for (const auto& [update, loss] : results[0].losses) {
      EXPECT_NEAR(results[k].losses.at(update), loss, 2e-6) << update;
      for (size_t s = 0; s < 2; ++s) {
        const double squares = results[0].squares.at(update)[s];
        EXPECT_NEAR(results[k].squares.at(update)[s], squares, 1e-5 * squares);
      }
    }
    for (const auto& [name, weights] : results[0].weights) {
      EXPECT_LT(LargestDifference(results[k].weights.at(name), weights), 1e-6)
          << name;
    }
  }
}

// P = 1 has no delay: asynchronous and synchronous are the same optimizer.
TEST(Synchronous, OneStageIsThePlainOptimizer) {
  for (const auto& optimizer : test_support::AllOptimizers()) {
    PipelineOptions asynchronous = OptionsOf({ScheduleKind::kAsync1F1B, 1, 2});
    PipelineOptions synchronous = OptionsOf({ScheduleKind::kGPipe, 1, 2});
    asynchronous.optimizer = synchronous.optimizer = optimizer.spec;
    EXPECT_TRUE(
        RunPipeline(asynchronous).SameNumbers(RunPipeline(synchronous)));
  }
}

}  // namespace
}  // namespace gimbal::worker
