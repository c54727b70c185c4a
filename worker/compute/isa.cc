#include "worker/compute/isa.h"

namespace gimbal::compute {

const char* ToString(Isa isa) {
  return isa == Isa::kV3 ? "x86-64-v3" : "x86-64";
}

bool IsSupported(Isa isa) {
  // Together these imply the rest of what the compiler may use in kernels.
  return isa == Isa::kBaseline ||
         (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
          __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"));
}

Isa ActiveIsa() {
  static const Isa isa = IsSupported(Isa::kV3) ? Isa::kV3 : Isa::kBaseline;
  return isa;
}

}  // namespace gimbal::compute
