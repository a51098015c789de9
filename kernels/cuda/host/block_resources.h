// What warp groups of a block share on the host besides memory: numbered barriers and registers.
#pragma once

#include "kernels/cuda/host/grid.h"

namespace titan::cuda::host {

/// bar.sync with a number, 1 to 15 (0 is that of __syncthreads), of `threads` threads in whole warps:
/// whichever come first, as on a GPU.
void numbered_barrier(int number, int threads, Site site = Site::current());

/// setmaxnreg, by all threads of a warp group: from now on each has so many registers, more than before or
/// fewer. A block starts with the most that one of its size can have. Waits until others have given enough.
void set_registers(int count, bool more, Site site = Site::current());

}  // namespace titan::cuda::host
