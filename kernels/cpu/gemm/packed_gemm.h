// titan's own GEMM: both operands packed into panels, a register tile for each instruction set, any layout
// and type. After Goto & van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3),
// 2008.
//
// B is packed by all threads, as many columns of it as the buffer holds; then each thread takes blocks of
// rows of A, packs them and multiplies them by all of that. An element's sum runs over k in one order
// whatever the blocks, so results are the same bits on any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cpu/base/isa.h"
#include "kernels/cpu/gemm/gemm_problem.h"

namespace titan::cpu {

class Team;
struct PackedKernels;

/// How a product is cut. Rows and columns are multiples of the register tile.
struct Blocking {
  std::int64_t packed_columns;  ///< of B at a time
  std::int64_t rows;            ///< of an item: what one thread does at a time
  std::int64_t column_groups;   ///< items beside each other, where there are too few rows for all threads
  std::int64_t group_columns;   ///< of an item
  std::int64_t tile_columns;    ///< of an item's columns at a time
  bool reads_a;                 ///< rows of A are read where they are, not packed
  bool keeps_a;                 ///< an item packs its rows once, for all of k; else again for each tile
};

Blocking choose_blocking(const GemmProblem& problem, int threads, const PackedKernels& kernels);

class PackedGemm {
 public:
  explicit PackedGemm(Isa isa) : isa_(isa) {}
  /// m, n, k >= 1.
  void multiply(const GemmProblem& problem, const Team& team);
  /// Memory held for packing: of the largest product so far.
  std::int64_t buffer_bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::byte* reserve(std::int64_t bytes);

  Isa isa_;
  std::unique_ptr<std::byte, Free> buffer_;
  std::int64_t bytes_ = 0;
};

}  // namespace titan::cpu
