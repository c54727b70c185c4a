// Every instruction set that this machine runs, as a test parameter.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "worker/compute/isa.h"

namespace gimbal::compute {

inline std::vector<Isa> SupportedIsas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kBaseline, Isa::kV3, Isa::kV4}) {
    if (IsSupported(isa)) isas.push_back(isa);
  }
  return isas;
}

class IsaTest : public ::testing::TestWithParam<Isa> {};

inline std::string IsaName(const ::testing::TestParamInfo<Isa>& info) {
  switch (info.param) {
    case Isa::kV4:
      return "v4";
    case Isa::kV3:
      return "v3";
    case Isa::kBaseline:
      break;
  }
  return "baseline";
}

}  // namespace gimbal::compute
