// Instruction sets the SIMD sources are compiled for, and what this machine has.
#pragma once

namespace titan::cpu {

/// Weakest first: SSE2 (any x86-64), AVX2 + FMA, AVX-512 F/BW/VL/DQ, and those with bf16 dot products, with
/// AMX tiles of bf16.
enum class Isa { baseline, avx2, avx512, avx512_bf16, amx };
inline constexpr Isa kAllIsas[] = {Isa::baseline, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx};

/// The best this machine has. TITAN_CPU_ISA=baseline|avx2|avx512|avx512_bf16|amx in the environment lowers it
/// (tests, comparisons); any other value is a UserError.
Isa best_isa();
const char* to_string(Isa isa);

/// The instruction set of sources that only know vectors.
constexpr Isa vector_isa(Isa isa) { return isa < Isa::avx512 ? isa : Isa::avx512; }

/// The table of kernels for `isa`, out of those that titan_simd_library compiles.
template <class Kernels>
const Kernels& choose(Isa isa, const Kernels& baseline, const Kernels& avx2, const Kernels& avx512) {
  switch (vector_isa(isa)) {
    case Isa::avx512:
      return avx512;
    case Isa::avx2:
      return avx2;
    default:
      return baseline;
  }
}

}  // namespace titan::cpu
