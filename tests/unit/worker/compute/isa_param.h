// Every instruction set that this machine runs, as a test parameter.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "worker/compute/isa.h"

namespace gimbal::compute {

inline std::vector<Isa> SupportedIsas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kBaseline, Isa::kV3}) {
    if (IsSupported(isa)) isas.push_back(isa);
  }
  return isas;
}

class IsaTest : public ::testing::TestWithParam<Isa> {};

inline std::string IsaName(const ::testing::TestParamInfo<Isa>& info) {
  return info.param == Isa::kV3 ? "v3" : "baseline";
}

}  // namespace gimbal::compute
