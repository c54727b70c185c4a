#include "worker/pipeline/cuda/update_units.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/unit/worker/optim/optim_test_util.h"

namespace gimbal::worker {
namespace {

OptimizerSpec Spec(OptimizerKind kind, bool offload) {
  return {.kind = kind, .offload = offload};
}

// Every element of every parameter is in one unit, whose extents do not overlap
// others'.
TEST(UpdateUnits, CoverEveryParameterOnce) {
  const ParameterTable table = SmallTable(8, 12, 3);
  for (const auto kind :
       {OptimizerKind::kAdamW, OptimizerKind::kSgd, OptimizerKind::kMuon,
        OptimizerKind::kBasisRotation}) {
    for (const bool offload : {false, true}) {
      const UpdateUnits units(Spec(kind, offload), table);
      std::map<std::string, int64_t> elements;
      std::map<int64_t, int64_t> extents;  // by offset
      for (const UpdateUnit& unit : units.units) {
        for (const Param* p : unit.matrices) elements[p->name] += p->size();
        for (const UpdateRun& run : unit.runs) {
          for (const Param& p : table.params()) {
            elements[p.name] +=
                std::max<int64_t>(0, std::min(run.end, p.offset + p.size()) -
                                         std::max(run.begin, p.offset));
          }
          EXPECT_LE((run.state + run.end - run.begin) * 4, unit.state[0].bytes);
        }
        for (const StateExtent& extent : unit.state) {
          if (extent.bytes > 0) extents[extent.offset] = extent.bytes;
        }
      }
      for (const Param& p : table.params()) {
        EXPECT_EQ(elements[p.name], p.size()) << p.name;
      }
      int64_t end = 0;
      for (const auto& [offset, bytes] : extents) {
        EXPECT_GE(offset, end);
        end = offset + bytes;
      }
      EXPECT_LE(end, units.state_bytes);
    }
  }
}

TEST(UpdateUnits, TakeLittleOfTheDeviceWithTheStateOnTheHost) {
  const ParameterTable table = SmallTable(64, 256, 12);
  for (const auto kind : {OptimizerKind::kAdamW, OptimizerKind::kMuon,
                          OptimizerKind::kBasisRotation}) {
    const UpdateUnits apart(Spec(kind, false), table);
    const UpdateUnits units(Spec(kind, true), table);
    EXPECT_EQ(apart.window_bytes[0] + apart.window_bytes[1], 0);
    const int64_t windows = units.window_bytes[0] + units.window_bytes[1];
    EXPECT_GT(windows, 0);
    EXPECT_LE(windows, units.state_bytes * 2 / kUnitShare + 4096);
    EXPECT_GE(units.units.size(), static_cast<size_t>(kUnitShare));
  }
}

}  // namespace
}  // namespace gimbal::worker
