#include "worker/compute/isa.h"

namespace gimbal::compute {

const char* ToString(Isa isa) {
  switch (isa) {
    case Isa::kV4:
      return "x86-64-v4";
    case Isa::kV3:
      return "x86-64-v3";
    case Isa::kBaseline:
      break;
  }
  return "x86-64";
}

// What is asked implies the rest of what the compiler may use in kernels.
bool IsSupported(Isa isa) {
  switch (isa) {
    case Isa::kV4:
      return IsSupported(Isa::kV3) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512cd") &&
             __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
    case Isa::kV3:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    case Isa::kBaseline:
      break;
  }
  return true;
}

Isa ActiveIsa() {
  static const Isa isa = IsSupported(Isa::kV4)   ? Isa::kV4
                         : IsSupported(Isa::kV3) ? Isa::kV3
                                                 : Isa::kBaseline;
  return isa;
}

}  // namespace gimbal::compute
