#include "worker/checkpoint/load_model.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "common/io/checkpoint_layout.h"
#include "common/io/safetensors.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::worker {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;

ParameterTable Table(bool first, bool last, int first_block, int blocks) {
  StageSpec spec;
  spec.model = {.layers = 2,
                .hidden = 4,
                .heads = 2,
                .context = 3,
                .vocab = 5,
                .mlp_hidden = 8};
  spec.first_block = first_block;
  spec.blocks = blocks;
  spec.first = first;
  spec.last = last;
  spec.microbatch = 1;
  return ParameterTable::ForStage(spec);
}

// Writes the layer files of a table, as a checkpoint has them.
void WriteLayers(const std::string& folder, const ParameterTable& table,
                 const std::vector<float>& weights) {
  std::map<int, std::vector<io::TensorView>> layers;
  for (const Param& param : table.params()) {
    std::vector<int64_t> shape = {param.rows, param.cols};
    if (param.group == ParamGroup::kVector) shape = {param.cols};
    layers[param.layer].push_back(
        {param.name, shape, weights.data() + param.offset});
  }
  for (const auto& [layer, tensors] : layers) {
    ASSERT_THAT(
        io::WriteSafetensors(folder + "/" + io::LayerFile(layer), tensors, {}),
        IsOk());
  }
}

TEST(LoadModelTest, StagesThatWroteApartAreReadAsOneModel) {
  const TempDir dir;
  const ParameterTable whole = Table(true, true, 0, 2);
  std::vector<float> expected(whole.size(), 0);
  whole.Initialize<float>(7, 0.5, expected.data());
  for (const bool first : {true, false}) {
    const ParameterTable part = Table(first, !first, first ? 0 : 1, 1);
    std::vector<float> weights(part.size(), 0);
    part.Initialize<float>(7, 0.5, weights.data());
    WriteLayers(dir.path(), part, weights);
  }
  std::vector<float> loaded(whole.size(), 0);
  ASSERT_THAT(LoadWeights(dir.path(), whole, loaded.data()), IsOk());
  EXPECT_EQ(loaded, expected);
}

TEST(LoadModelTest, AMissingLayerIsNamed) {
  const TempDir dir;
  const ParameterTable part = Table(true, false, 0, 1);
  WriteLayers(dir.path(), part, std::vector<float>(part.size(), 1));
  const ParameterTable whole = Table(true, true, 0, 2);
  std::vector<float> loaded(whole.size(), 0);
  EXPECT_THAT(LoadWeights(dir.path(), whole, loaded.data()),
              StatusIs(absl::StatusCode::kNotFound,
                       testing::HasSubstr("layer-002.safetensors")));
}

}  // namespace
}  // namespace gimbal::worker
