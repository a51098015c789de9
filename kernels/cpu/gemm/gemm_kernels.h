// The inner loops of the packed GEMM, compiled once for each instruction set (gemm_kernels.cc).
//
// A panel holds `width` rows of op(A) or columns of op(B), depth-major: element (d, i) at d·width + i, f32,
// zero where the matrix has ended. The register tile multiplies one A panel by one B panel.
#pragma once

#include <cstdint>

#include "kernels/cpu/base/isa.h"

namespace titan::cpu {

struct GemmKernels {
  int tile_rows, tile_columns;  ///< panel widths of A and B
  std::int64_t depth;           ///< block of k whose B panel stays in the first-level cache

  /// Packs `items` rows (or columns) × `depth` into panels of tile_rows or tile_columns. Element (i, d) of
  /// the source lies at i + d·pitch when the items are contiguous, else at i·pitch + d.
  using Pack = void (*)(const void* source, std::int64_t pitch, bool items_contiguous, std::int64_t items,
                        std::int64_t depth, float* panels);
  Pack pack_a_f32, pack_b_f32, pack_a_bf16, pack_b_bf16;

  /// c [rows, columns] f32 (= or +=) packed A · packed B.
  void (*multiply)(std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* a,
                   const float* b, float* c, std::int64_t c_pitch, bool add);

  /// c [rows, columns] bf16 (= or +=) tile, rounded once.
  void (*round)(std::int64_t rows, std::int64_t columns, const float* tile, std::int64_t tile_pitch, void* c,
                std::int64_t c_pitch, bool add);

  /// Few rows: c [rows, columns] = or += dot products of rows of a with rows of b (both contiguous in k),
  /// each read once, nothing packed.
  using Dots = void (*)(std::int64_t rows, std::int64_t columns, std::int64_t k, const void* a,
                        std::int64_t a_pitch, const void* b, std::int64_t b_pitch, void* c,
                        std::int64_t c_pitch, bool add);
  Dots dots_f32_f32, dots_bf16_f32, dots_bf16_bf16;
};

namespace baseline {
extern const GemmKernels kGemmKernels;
}
namespace avx2 {
extern const GemmKernels kGemmKernels;
}
namespace avx512 {
extern const GemmKernels kGemmKernels;
}

}  // namespace titan::cpu
