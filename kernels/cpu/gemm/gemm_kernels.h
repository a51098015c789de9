// The inner loops of titan's own GEMM, one table for each instruction set and type of input.
//
// A panel holds tile_rows rows of op(A), or tile_columns columns of op(B), over a block of k; rows, columns
// and depth that the matrix lacks are zeros. In which order its elements lie is known to the table alone. A
// register tile multiplies one panel of A by one of B.
#pragma once

#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/cpu/base/isa.h"
#include "kernels/cpu/gemm/gemm_problem.h"

namespace titan::cpu {

/// c [rows, columns] = sum over blocks of k of a · b, one block a call, in order.
struct GemmBlock {
  std::int64_t rows, columns, depth;
  const void *a, *b;  ///< panels, one after another
  /// Not 0: a is not packed but the rows of the matrix, this many bytes apart (PackedKernels::reads_rows).
  std::int64_t a_pitch;
  bool first, last;  ///< of the blocks of k
  /// Sums of the blocks before, f32 [rows, columns] in whole tiles. Unused when the first is the last.
  float* sums;
  std::int64_t sums_pitch;
  /// Written with the last block, rounded once.
  void* c;
  std::int64_t c_pitch;
  bool add;                  ///< onto c
  GemmScaling scaling = {};  ///< of the block's rows and columns, once its sums are complete
};

struct PackedKernels {
  int tile_rows, tile_columns;
  std::int64_t depth;  ///< block of k whose panel of B stays in the first-level cache
  int depth_unit;      ///< a panel's depth is rounded up to this
  int element_bytes;
  bool reads_rows;  ///< multiply takes rows of A as they are, if they are contiguous along an even k

  std::int64_t panel_bytes(std::int64_t items, std::int64_t panel_depth) const {
    return items * ((panel_depth + depth_unit - 1) / depth_unit * depth_unit) * element_bytes;
  }

  /// Packs `items` rows (or columns) × `depth`. Element (i, d) of the source lies at i + d·pitch when the
  /// items are contiguous, else at i·pitch + d.
  using Pack = void (*)(const void* source, std::int64_t pitch, bool items_contiguous, std::int64_t items,
                        std::int64_t depth, void* panels);
  Pack pack_a, pack_b;

  void (*multiply_to_f32)(const GemmBlock& block);
  void (*multiply_to_bf16)(const GemmBlock& block);
};

/// Few rows: c [rows, columns] = or += dot products of rows of a with rows of b (both contiguous in k), each
/// read once, nothing packed.
struct DotKernels {
  using Dots = void (*)(std::int64_t rows, std::int64_t columns, std::int64_t k, const void* a,
                        std::int64_t a_pitch, const void* b, std::int64_t b_pitch, void* c,
                        std::int64_t c_pitch, bool add);
  Dots f32_f32, bf16_f32, bf16_bf16;
};

const PackedKernels& packed_kernels(Isa isa, DType input);
const DotKernels& dot_kernels(Isa isa);

// Panels of f32, from inputs of both types.
namespace baseline {
extern const PackedKernels kFromF32, kFromBf16;
extern const DotKernels kDots;
}  // namespace baseline
namespace avx2 {
extern const PackedKernels kFromF32, kFromBf16;
extern const DotKernels kDots;
}  // namespace avx2
namespace avx512 {
extern const PackedKernels kFromF32, kFromBf16;
extern const DotKernels kDots;
}  // namespace avx512

// Panels of bf16 pairs, multiplied by dot-product instructions.
namespace avx512_bf16 {
extern const PackedKernels kFromBf16;
}

// Panels of tiles.
namespace amx {
extern const PackedKernels kFromBf16;
}

}  // namespace titan::cpu
