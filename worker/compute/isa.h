// Kernels exist once per instruction set and are chosen at start by what the
// CPU can do. A kernel source (X_cpu.cc, listed with gimbal_isa_sources in
// CMake) is compiled once per set with GIMBAL_ISA naming it, and specialises
// `Variant` for the op's struct of function pointers:
//
// clang-format off
//   template <typename T> struct LayerNorm { void (*forward)(...); };  // X.h
//   template <>                                                   // X_cpu.cc
//   const LayerNorm<float>& Variant<LayerNorm<float>, Isa::GIMBAL_ISA>() {...}
//   Kernels<LayerNorm<float>>().forward(...);                      // callers
// clang-format on
//
// Everything else in a kernel source has internal linkage, and it includes no
// header with inline functions of external linkage (the standard library
// included): the linker keeps one copy of those, perhaps the one that needs the
// newer CPU.
//
// Thread-safe.
#pragma once

namespace gimbal::compute {

enum class Isa {
  kBaseline,  // x86-64: SSE2
  kV3,        // x86-64-v3: AVX2 and FMA
  // x86-64-v4: AVX-512, by which a narrow model trains 3% faster than by kV3.
  // So far both have given the same bits, but the numerics tag tells them
  // apart.
  kV4,
};

const char* ToString(Isa isa);

// Whether this CPU runs it.
bool IsSupported(Isa isa);

// The best supported one; the same for the life of the process.
Isa ActiveIsa();

// The op compiled for an instruction set.
template <typename Op, Isa isa>
const Op& Variant();

template <typename Op>
const Op& KernelsFor(Isa isa) {
  switch (isa) {
    case Isa::kV4:
      return Variant<Op, Isa::kV4>();
    case Isa::kV3:
      return Variant<Op, Isa::kV3>();
    case Isa::kBaseline:
      break;
  }
  return Variant<Op, Isa::kBaseline>();
}

// The op for this CPU.
template <typename Op>
const Op& Kernels() {
  return KernelsFor<Op>(ActiveIsa());
}

}  // namespace gimbal::compute
