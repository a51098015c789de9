// TMA on the host: copies of tiles that a tensor map describes. Until a copy has arrived, which it does as
// background work (grid.h), its destination is NaN.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/host/grid.h"

namespace titan::cuda::host {

/// Starts to copy the box at element (x, y, z) of a rank-3 map to shared memory, rows of 128 bytes behind
/// each other with their 16-byte pieces swizzled; zeros outside of the tensor. Its bytes then arrive at the
/// barrier.
void load_box(const CUtensorMap& map, int x, int y, int z, void* to, std::uint64_t* barrier,
              Site site = Site::current());

/// The shared address that a 128-byte swizzle puts `address` at.
constexpr std::uint32_t swizzled(std::uint32_t address) { return address ^ (address >> 3 & 0x70u); }

}  // namespace titan::cuda::host
