#include "coordinator/cli/sweep_tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace gimbal::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

SweepSpec Spec(bool climb) {
  SweepSpec spec;
  spec.seeds = {"1", "2"};
  spec.climb = climb;
  spec.methods.push_back({.name = "m",
                          .stages = {1},
                          .lrs = {"4e-3", "5e-4", "1e-3", "2e-3", "2.5e-4"}});
  return spec;
}

std::vector<std::string> Names(const std::vector<SweepRun>& runs) {
  std::vector<std::string> names;
  for (const SweepRun& run : runs) names.push_back(run.name);
  return names;
}

// What is wanted and not there, named without "m-P1-lr".
std::vector<std::string> Missing(const SweepSpec& spec,
                                 const SweepRecords& records,
                                 const std::set<std::string>& failed = {}) {
  std::vector<std::string> missing;
  for (const std::string& name : Names(WantedRuns(spec, records, failed))) {
    if (!records.contains(name) && !failed.contains(name)) {
      missing.push_back(name.substr(7));
    }
  }
  return missing;
}

void Put(SweepRecords* records, const std::string& name, double loss) {
  RunRecord record;
  record.rows.push_back({.step = 1, .loss = loss});
  (*records)["m-P1-lr" + name] = record;
}

TEST(SweepTuning, AllRunsTheWholeGrid) {
  EXPECT_EQ(Missing(Spec(false), {}).size(), 10u);
}

TEST(SweepTuning, ClimbBeginsInTheMiddle) {
  EXPECT_THAT(Missing(Spec(true), {}),
              UnorderedElementsAre("5e-4-s1", "1e-3-s1", "2e-3-s1"));
}

TEST(SweepTuning, ClimbMovesToTheBetterNeighbourAndStopsAtTheTop) {
  SweepRecords records;
  Put(&records, "5e-4-s1", 3);
  Put(&records, "1e-3-s1", 2);
  EXPECT_THAT(Missing(Spec(true), records), ElementsAre("2e-3-s1"));
  Put(&records, "2e-3-s1", 1);
  EXPECT_THAT(Missing(Spec(true), records), ElementsAre("4e-3-s1"));
  Put(&records, "4e-3-s1", 1.5);
  EXPECT_THAT(Missing(Spec(true), records), ElementsAre("2e-3-s2"));
  Put(&records, "2e-3-s2", 9);  // another seed does not move it
  EXPECT_THAT(Missing(Spec(true), records), IsEmpty());
  EXPECT_EQ(BestLr(Spec(true), Spec(true).methods[0], 1, records), "2e-3");
}

TEST(SweepTuning, ClimbStopsAtTheEndOfTheGrid) {
  SweepRecords records;
  Put(&records, "2e-3-s1", 4);
  Put(&records, "1e-3-s1", 3);
  Put(&records, "5e-4-s1", 2);
  Put(&records, "2.5e-4-s1", 1);
  EXPECT_THAT(Missing(Spec(true), records), ElementsAre("2.5e-4-s2"));
}

TEST(SweepTuning, AFailedRunIsTheWorst) {
  SweepRecords records;
  Put(&records, "5e-4-s1", 3);
  Put(&records, "1e-3-s1", 2);
  EXPECT_THAT(Missing(Spec(true), records, {"m-P1-lr2e-3-s1"}),
              ElementsAre("1e-3-s2"));
}

TEST(SweepTuning, ADivergedRunIsNotTheBest) {
  SweepRecords records;
  Put(&records, "5e-4-s1", 3);
  Put(&records, "1e-3-s1", NAN);
  Put(&records, "2e-3-s1", NAN);
  EXPECT_EQ(BestLr(Spec(true), Spec(true).methods[0], 1, records), "5e-4");
  EXPECT_THAT(Missing(Spec(true), records), ElementsAre("2.5e-4-s1"));
}

TEST(SweepTuning, WithoutClimbingTheMeanOfTheSeedsDecides) {
  SweepRecords records;
  Put(&records, "1e-3-s1", 1);
  Put(&records, "1e-3-s2", 5);
  Put(&records, "2e-3-s1", 2);
  Put(&records, "2e-3-s2", 2);
  EXPECT_EQ(BestLr(Spec(false), Spec(false).methods[0], 1, records), "2e-3");
}

}  // namespace
}  // namespace gimbal::cli
