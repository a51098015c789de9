// wgmma.mma_async on the host: products by 128 threads that read shared memory through descriptors and end
// when they are waited for. Until then the sums in registers are NaN, and factors must stay as they were:
// using or changing either too early shows. Warps of a group wait for each other only where a product needs
// all of them: what they hand to each other in shared memory needs a barrier.
#pragma once

#include <cstdint>

#include "kernels/cuda/host/grid.h"

namespace titan::cuda::host {

/// Factors of one wgmma.m64nNk16, d += a · b or d = a · b in bf16. Sums: thread 32·w + 4·g + t of the group
/// holds in d[4·n ..] row 16·w + g, columns 8·n + 2t and the next, then the same of row + 8.
struct GroupProduct {
  const unsigned* a_registers;  ///< fragments as mma.m16n8k16 has them, rows 16·w of a; or null
  std::uint64_t a, b;           ///< descriptors: a [64 × 16] (unless in registers), b [N × 16]
  bool transposed_b;            ///< N is contiguous in memory, not the 16
  bool accumulate;
};

/// The registers are ready: before the first product of each group.
void fence_group(Site site = Site::current());
void multiply_group(float* d, int columns, const GroupProduct& factors, Site site = Site::current());
/// Ends a group of products.
void commit_group(Site site = Site::current());
/// Waits for all groups but the last `pending`.
void wait_group(int pending, Site site = Site::current());

}  // namespace titan::cuda::host
