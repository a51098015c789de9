// titan's own GEMM: panels packed to f32, a register tile for each instruction set, any layout and dtype.
// After Goto & van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3), 2008.
//
// The output is cut into tiles; a thread computes one tile over all of k. An element's sum runs over k in one
// order whatever the tiles, so results are the same bits on any number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/base/isa.h"
#include "kernels/cpu/gemm/gemm_problem.h"

namespace titan::cpu {

class Team;
struct GemmKernels;

const GemmKernels& gemm_kernels(Isa isa);

/// Output tiles one thread computes at a time: rows × columns, multiples of the register tile.
struct Tiling {
  std::int64_t rows, columns;
};

/// As large as the buffers allow (packing costs 1/rows + 1/columns), but enough tiles to keep `threads` busy.
Tiling choose_tiling(std::int64_t m, std::int64_t n, int threads, const GemmKernels& kernels);

class PackedGemm {
 public:
  explicit PackedGemm(Isa isa);
  /// m, n, k >= 1.
  void multiply(const GemmProblem& problem, const Team& team);
  /// Memory held for packing: allocated at the first call, for each thread of the team.
  std::int64_t buffer_bytes() const;

 private:
  struct Buffers;
  struct Free {
    void operator()(float* p) const;
  };
  void reserve(int threads);
  void multiply_tile(const GemmProblem& problem, std::int64_t row, std::int64_t column, Tiling size,
                     float* buffer) const;

  const GemmKernels& kernels_;
  std::vector<std::unique_ptr<float, Free>> buffers_;  ///< one a thread
};

}  // namespace titan::cpu
