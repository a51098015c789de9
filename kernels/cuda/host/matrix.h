// The warp's matrix instructions on the host, with the fragments of the PTX ISA: ldmatrix and
// mma.m16n8k16 of bf16. Lane l = 4·g + t.
#pragma once

#include "kernels/cuda/host/grid.h"

namespace titan::cuda::host {

/// ldmatrix.x4: lanes 8·i .. 8·i + 7 give the rows (8 elements of 16 bits, 16-byte aligned) of matrix i.
/// r[i]: elements 2t and 2t + 1 of its row g; of its column g when `transposed`.
void load_matrices(unsigned (&r)[4], const void* row, bool transposed, Site site = Site::current());

/// d += a · b; a is 16×16, b 16×8, in bf16; d 16×8 in f32.
/// a[0]: row g, columns 2t and 2t + 1; a[1]: row g + 8; a[2], a[3]: the same 8 columns on.
/// b[0]: rows 2t and 2t + 1 of column g; b[1]: 8 rows on.
/// d[0], d[1]: row g, columns 2t and 2t + 1; d[2], d[3]: row g + 8.
void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Site site = Site::current());

}  // namespace titan::cuda::host
