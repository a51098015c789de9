// Instruction sets the SIMD sources are compiled for, and what this machine has.
#pragma once

namespace titan::cpu {

/// Weakest first: SSE2 (any x86-64), AVX2 + FMA, AVX-512 F/BW/VL/DQ.
enum class Isa { baseline, avx2, avx512 };

/// The best this machine has. TITAN_CPU_ISA=baseline|avx2|avx512 in the environment lowers it (tests,
/// comparisons); any other value is a UserError.
Isa best_isa();
const char* to_string(Isa isa);

/// Matrix instructions on bf16: AVX-512 BF16 dot products, AMX tiles. Both false when `isa` is below avx512.
struct Bf16Features {
  bool avx512_bf16 = false, amx = false;
};
Bf16Features bf16_features(Isa isa);

}  // namespace titan::cpu
