#include "common/io/checkpoint_layout.h"

#include <gtest/gtest.h>

namespace gimbal::io {
namespace {

TEST(CheckpointLayoutTest, NamesStepFolders) {
  EXPECT_EQ(StepFolderName(200), "step-00000200");
  EXPECT_EQ(StepFolderName(1234567890), "step-1234567890");
}

TEST(CheckpointLayoutTest, ParsesItsOwnNamesOnly) {
  for (const int64_t update : {0L, 1L, 99999999L, 100000000L, INT64_MAX}) {
    EXPECT_EQ(ParseStepFolderName(StepFolderName(update)), update);
  }
  for (const char* name :
       {"", "step-", "step-200", "step-000000200", "step-0000020x",
        "step-+0000200", "step-00000200.tmp", "step--0000200", " step-00000200",
        "step- 0000200", "latest", "step-99999999999999999999"}) {
    EXPECT_EQ(ParseStepFolderName(name), std::nullopt) << name;
  }
}

TEST(CheckpointLayoutTest, NamesFilesAndStashedTensors) {
  EXPECT_EQ(LayerFile(3), "layers/layer-003.safetensors");
  EXPECT_EQ(OptimizerFile(0), "optimizer/layer-000.safetensors");
  EXPECT_EQ(StashFile(1000), "stash/layer-1000.safetensors");
  EXPECT_EQ(StashTensorName(197, "blocks.0.q"), "v197/blocks.0.q");
}

TEST(CheckpointLayout, TellsWhatNoStageCountShowsIn) {
  EXPECT_TRUE(IsLayerOrOptimizerFile(LayerFile(3)));
  EXPECT_TRUE(IsLayerOrOptimizerFile(OptimizerFile(3)));
  EXPECT_FALSE(IsLayerOrOptimizerFile(StashFile(3)));
  EXPECT_FALSE(IsLayerOrOptimizerFile(InFlightFile(3)));
}

TEST(CheckpointLayout, KnowsItsOwnFilesAndNoOthers) {
  for (const std::string& file :
       {LayerFile(3), OptimizerFile(1000), StashFile(0), InFlightFile(2)}) {
    EXPECT_TRUE(IsSnapshotFile(file)) << file;
    EXPECT_FALSE(IsSnapshotFile("../" + file)) << file;
    EXPECT_FALSE(IsSnapshotFile("/" + file)) << file;
    EXPECT_FALSE(IsSnapshotFile(file + ".tmp")) << file;
  }
  for (const char* file :
       {"", "-", "-.", "manifest.json", "COMMIT", "layers/layer-3.safetensors",
        "layers/layer--01.safetensors", "layers/../layer-003.safetensors",
        "in_flight/layer-003.safetensors", "layers/layer-003"}) {
    EXPECT_FALSE(IsSnapshotFile(file)) << file;
  }
}

}  // namespace
}  // namespace gimbal::io
