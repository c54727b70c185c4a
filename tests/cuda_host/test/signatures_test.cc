// The layer's functions are declared as the toolkit declares them, and its
// constants have the toolkit's values: else a source could compile and pass
// here that nvcc refuses or a GPU misunderstands.
#include "tests/cuda_host/test/signatures.h"

#include <gtest/gtest.h>

namespace gimbal::cuda_host {
namespace {

TEST(Signatures, AreThoseOfTheToolkit) {
  const auto toolkit = ToolkitSignatures();
  const auto layer = LayerSignatures();
  EXPECT_GT(layer.size(), 150u);
  for (const auto& [name, signature] : layer) {
    EXPECT_EQ(signature, toolkit.at(name)) << name;
  }
}

}  // namespace
}  // namespace gimbal::cuda_host
