#include "worker/compute/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "worker/compute/isa.h"

namespace gimbal::compute {
namespace {

using ::testing::HasSubstr;

TEST(RuntimeTest, TagNamesWhatTheNumbersDependOn) {
  EXPECT_THAT(NumericsTag(), HasSubstr("OpenBLAS"));
  EXPECT_THAT(NumericsTag(), HasSubstr(ToString(ActiveIsa())));
}

// A worker that registers again after its first assignment is the same worker.
TEST(RuntimeTest, TagStaysTheSameForTheLifeOfTheProcess) {
  SetThreads(2);
  const std::string tag = NumericsTag();
  SetThreads(1);
  EXPECT_EQ(NumericsTag(), tag);
}

TEST(RuntimeTest, PreparedThreadHasNoDenormals) {
  const auto half_of_smallest = [] {
    volatile float smallest = std::numeric_limits<float>::min();
    return smallest * 0.5f;
  };
  float before = 0, after = 1;
  std::thread([&] {
    before = half_of_smallest();
    PrepareComputeThread();
    after = half_of_smallest();
  }).join();
  EXPECT_GT(before, 0.0f);
  EXPECT_EQ(after, 0.0f);
}

}  // namespace
}  // namespace gimbal::compute
