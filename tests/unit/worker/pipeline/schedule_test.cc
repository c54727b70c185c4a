#include "worker/pipeline/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace gimbal::worker {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Program(const ScheduleSpec& spec, int stage,
                                 int64_t start, int64_t end) {
  std::vector<std::string> text;
  for (int64_t t = start + 1; t <= end; ++t) {
    for (const Action& a : BlockActions(spec, stage, t, start, end, {})) {
      text.push_back(ToString(a));
    }
  }
  return text;
}

TEST(Schedule, AsynchronousStageRunsAheadAndNeverFlushes) {
  const ScheduleSpec spec{ScheduleKind::kAsync1F1B, 3, 1};
  EXPECT_THAT(Program(spec, 0, 0, 3),
              ElementsAre("F0@0", "F1@0", "F2@0", "B0@0", "U1", "B1@0", "U2",
                          "B2@0", "U3"));
  EXPECT_THAT(Program(spec, 1, 0, 4),
              ElementsAre("F0@0", "F1@0", "B0@0", "U1", "F2@1", "B1@0", "U2",
                          "F3@2", "B2@1", "U3", "B3@2", "U4"));
  EXPECT_THAT(Program(spec, 2, 0, 2),
              ElementsAre("F0@0", "B0@0", "U1", "F1@1", "B1@1", "U2"));
}

TEST(Schedule, AccumulationAveragesSeveralMicrobatches) {
  const ScheduleSpec spec{ScheduleKind::kAsync1F1B, 2, 2};
  EXPECT_THAT(Program(spec, 0, 0, 2),
              ElementsAre("F0@0", "F1@0", "B0@0", "F2@0", "B1@0", "U1", "F3@1",
                          "B2@0", "B3@1", "U2"));
}

TEST(Schedule, SynchronousSchedulesFlushAndSumTheNorm) {
  const ScheduleSpec f1b1{ScheduleKind::k1F1B, 3, 3, true};
  EXPECT_THAT(
      Program(f1b1, 1, 0, 1),
      ElementsAre("F0@0", "F1@0", "B0@0", "F2@0", "B1@0", "B2@0", "N1", "U1"));
  const ScheduleSpec gpipe{ScheduleKind::kGPipe, 3, 3, true};
  EXPECT_THAT(
      Program(gpipe, 1, 1, 2),
      ElementsAre("F3@1", "F4@1", "F5@1", "B3@1", "B4@1", "B5@1", "N2", "U2"));
}

TEST(Schedule, TwoVersionsAreEnoughFor2BW) {
  const ScheduleSpec spec{ScheduleKind::k2BW, 2, 2};
  EXPECT_THAT(
      Program(spec, 0, 0, 3),
      ElementsAre("F0@0", "F1@0", "B0@0", "F2@0", "B1@0", "U1", "F3@0", "B2@0",
                  "F4@1", "B3@0", "U2", "F5@1", "B4@1", "B5@1", "U3"));
  EXPECT_EQ(WeightVersions(spec, 0), 2);
  EXPECT_EQ(Delay(spec, 1), 1);
}

// The pipeline runs empty every `sync_every` updates, whatever cut the run
// starts from.
TEST(Schedule, PeriodicSyncDrainsThePipeline) {
  const ScheduleSpec spec{.stages = 3, .sync_every = 3};
  EXPECT_THAT(Program(spec, 0, 0, 4),
              ElementsAre("F0@0", "F1@0", "F2@0", "B0@0", "U1", "B1@0", "U2",
                          "B2@0", "U3", "F3@3", "B3@3", "U4"));
  EXPECT_THAT(Program(spec, 0, 1, 3),
              ElementsAre("F1@0", "F2@0", "B1@0", "U2", "B2@0", "U3"));
  EXPECT_EQ(ExpectedStaleness(spec, 0, 3), 2);
  EXPECT_EQ(ExpectedStaleness(spec, 0, 4), 0);
  EXPECT_EQ(InFlightAfter(spec, 0, 3, 9).end, 3);
  EXPECT_EQ(InFlightAfter(spec, 0, 4, 9).end, 6);
}

TEST(Schedule, AnOriginIsAnEmptyPipelineAmongOtherUpdates) {
  const ScheduleSpec spec{.stages = 3, .sync_every = 3, .origin = 4};
  EXPECT_THAT(Program(spec, 0, 4, 7),
              ElementsAre("F4@4", "F5@4", "B4@4", "U5", "B5@4", "U6", "F6@6",
                          "B6@6", "U7"));
  EXPECT_EQ(InFlightAfter(spec, 0, 4, 9).end, 4) << "nothing is in flight";
  EXPECT_EQ(OldestVersionNeeded(spec, 0, 4), 4);
  EXPECT_EQ(OldestVersionNeeded(spec, 0, 5), 4);
  const ScheduleSpec two{
      .kind = ScheduleKind::k2BW, .stages = 2, .accumulate = 2, .origin = 3};
  EXPECT_THAT(
      Program(two, 1, 3, 6),
      ElementsAre("F6@3", "B6@3", "F7@3", "B7@3", "U4", "F8@3", "B8@3", "F9@3",
                  "B9@3", "U5", "F10@4", "B10@4", "F11@4", "B11@4", "U6"));
}

TEST(Schedule, WithoutAStashOneVersionIsEnough) {
  const ScheduleSpec spec{.stages = 4, .stash = false};
  EXPECT_EQ(WeightVersions(spec, 0), 1);
  EXPECT_EQ(OldestVersionNeeded(spec, 0, 7), 7);
  EXPECT_EQ(InFlightAfter(spec, 0, 7, 100).first, 7);
  EXPECT_EQ(InFlightAfter(spec, 0, 7, 100).end, 10);
}

TEST(Schedule, CutsComeAfterTheUpdate) {
  const ScheduleSpec spec{ScheduleKind::kAsync1F1B, 1, 1};
  const auto actions = BlockActions(spec, 0, 1, 0, 1, {true, true, true});
  ASSERT_EQ(actions.size(), 6u);
  EXPECT_EQ(ToString(actions[5]), "K1");
  EXPECT_EQ(actions[3].kind, ActionKind::kEvaluate);
  EXPECT_EQ(actions[4].kind, ActionKind::kSnapshot);
}

// Every schedule, stage count and accumulation, replayed with the version
// counter that the updates drive.
struct Case {
  ScheduleKind kind;
  int stages;
  int accumulate;
};

class EverySchedule : public ::testing::TestWithParam<Case> {};

TEST_P(EverySchedule, UsesWhatItClaims) {
  const auto [kind, stages, a] = GetParam();
  const ScheduleSpec spec{kind, stages, a};
  const int64_t updates = 3 * stages + 2;
  for (int s = 0; s < stages; ++s) {
    int64_t newest = 0;
    std::map<int64_t, int64_t> in_flight;  // microbatch -> version
    std::set<int64_t> forwards, backwards;
    size_t most_in_flight = 0;
    int64_t staleness = 0;
    for (int64_t t = 1; t <= updates; ++t) {
      for (const Action& x : BlockActions(spec, s, t, 0, updates, {})) {
        if (x.kind == ActionKind::kForward) {
          // Without a restart a forward always meets the newest weights, or
          // those before them with two versions.
          EXPECT_EQ(x.version, kind == ScheduleKind::k2BW
                                   ? std::max<int64_t>(0, x.index / a - 1)
                                   : newest);
          EXPECT_LE(x.version, newest);
          EXPECT_TRUE(forwards.insert(x.index).second);
          in_flight[x.index] = x.version;
          most_in_flight = std::max(most_in_flight, in_flight.size());
        } else if (x.kind == ActionKind::kBackward) {
          ASSERT_TRUE(in_flight.contains(x.index));
          EXPECT_EQ(in_flight[x.index], x.version);
          EXPECT_TRUE(backwards.insert(x.index).second);
          EXPECT_EQ(x.index / a + 1, newest + 1) << "gradient of this update";
          staleness = std::max(staleness, newest - x.version);
          in_flight.erase(x.index);
        } else if (x.kind == ActionKind::kUpdate) {
          EXPECT_EQ(staleness, ExpectedStaleness(spec, s, t));
          staleness = 0;
          newest = x.index;
          for (const auto& [j, version] : in_flight) {
            EXPECT_GE(version, OldestVersionNeeded(spec, s, t));
          }
        }
      }
      EXPECT_EQ(newest, t);
    }
    EXPECT_EQ(forwards.size(), static_cast<size_t>(updates * a));
    EXPECT_EQ(backwards, forwards);
    EXPECT_EQ(most_in_flight, static_cast<size_t>(ActivationSlots(spec, s)));
    EXPECT_EQ(WeightVersions(spec, s), Delay(spec, s) + 1);
  }
}

TEST_P(EverySchedule, RestartsAtACutWithTheSameVersions) {
  const auto [kind, stages, a] = GetParam();
  const ScheduleSpec spec{kind, stages, a};
  const int64_t end = 2 * stages + 3;
  for (int s = 0; s < stages; ++s) {
    std::map<int64_t, int64_t> versions;
    for (int64_t t = 1; t <= end; ++t) {
      for (const Action& x : BlockActions(spec, s, t, 0, end, {})) {
        if (x.kind == ActionKind::kForward) versions[x.index] = x.version;
      }
    }
    for (int64_t start = 1; start < end; ++start) {
      std::map<int64_t, int64_t> again;
      for (int64_t t = start + 1; t <= end; ++t) {
        for (const Action& x : BlockActions(spec, s, t, start, end, {})) {
          if (x.kind == ActionKind::kForward) {
            EXPECT_TRUE(again.emplace(x.index, x.version).second);
            EXPECT_EQ(x.version, versions[x.index]);
            EXPECT_GE(x.version, OldestVersionNeeded(spec, s, start));
          } else if (x.kind == ActionKind::kBackward) {
            EXPECT_TRUE(again.contains(x.index));
          }
        }
      }
      EXPECT_EQ(again.begin()->first, start * a);
    }
  }
}

// A run that goes over to these stages after update o does what one that begins
// with them does, everything o updates later.
TEST_P(EverySchedule, BeginsAtItsOriginAsAtZero) {
  const auto [kind, stages, a] = GetParam();
  const int64_t origin = 5, end = 2 * stages + 3;
  for (const bool stash : {true, false}) {
    const ScheduleSpec plain{
        .kind = kind, .stages = stages, .accumulate = a, .stash = stash};
    ScheduleSpec later = plain;
    later.origin = origin;
    const auto actions = [&](int stage, int64_t update, int64_t start) {
      auto shifted = BlockActions(plain, stage, update, start, end, {});
      for (Action& x : shifted) {
        const bool microbatch =
            x.kind == ActionKind::kForward || x.kind == ActionKind::kBackward;
        x.index += microbatch ? origin * a : origin;
        if (microbatch) x.version += origin;
      }
      return shifted;
    };
    for (int s = 0; s < stages; ++s) {
      for (int64_t t = 1; t <= end; ++t) {
        for (const int64_t start : {int64_t{0}, t / 2}) {
          EXPECT_EQ(BlockActions(later, s, origin + t, origin + start,
                                 origin + end, {}),
                    actions(s, t, start));
        }
        EXPECT_EQ(ExpectedStaleness(later, s, origin + t),
                  ExpectedStaleness(plain, s, t));
        EXPECT_EQ(OldestVersionNeeded(later, s, origin + t),
                  OldestVersionNeeded(plain, s, t) + origin);
        EXPECT_EQ(InFlightAfter(later, s, origin + t, origin + end).end,
                  InFlightAfter(plain, s, t, end).end + origin * a);
      }
      EXPECT_EQ(OldestVersionNeeded(later, s, origin), origin);
      EXPECT_EQ(InFlightAfter(later, s, origin, origin + end).end, origin * a);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EverySchedule, ::testing::ValuesIn([] {
                           std::vector<Case> cases;
                           for (ScheduleKind kind :
                                {ScheduleKind::kAsync1F1B, ScheduleKind::k1F1B,
                                 ScheduleKind::kGPipe, ScheduleKind::k2BW}) {
                             for (int stages : {1, 2, 3, 4, 8, 32}) {
                               for (int a : {1, 2, 3, 5, 8, 32}) {
                                 // Two versions need as many microbatches as
                                 // stages; the others are told apart by fewer.
                                 const bool two = kind == ScheduleKind::k2BW;
                                 if (two ? a < stages : a > 8) continue;
                                 cases.push_back({kind, stages, a});
                               }
                             }
                           }
                           return cases;
                         }()));

}  // namespace
}  // namespace gimbal::worker
