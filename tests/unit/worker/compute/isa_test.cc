#include "worker/compute/isa.h"

#include "tests/unit/worker/compute/isa_param.h"
#include "worker/compute/layer_norm.h"

namespace gimbal::compute {
namespace {

TEST(IsaChoiceTest, ActiveIsTheBestSupported) {
  EXPECT_TRUE(IsSupported(Isa::kBaseline));
  EXPECT_EQ(ActiveIsa(), SupportedIsas().back());
  EXPECT_EQ(&Kernels<LayerNorm<float>>(),
            &KernelsFor<LayerNorm<float>>(ActiveIsa()));
}

TEST(IsaChoiceTest, VariantsAreDifferentCode) {
  EXPECT_NE(KernelsFor<LayerNorm<float>>(Isa::kBaseline).forward,
            KernelsFor<LayerNorm<float>>(Isa::kV3).forward);
}

}  // namespace
}  // namespace gimbal::compute
