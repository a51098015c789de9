// The speeds of this machine, measured with the kernels that a step uses.
#pragma once

#include "kernels/base/dtype.h"
#include "kernels/cost/machine.h"

namespace titan {

/// FLOP/s of large matrix products of random values, in f32 or bf16 with f32 sums, on `threads` threads: the
/// fastest of several runs of two shapes. About two seconds.
double measure_gemm_peak(DType dtype, int threads);

/// Bytes a second that reading (a sum of squares) or copying large arrays moves, the faster of both. Throws
/// UserError when there is no memory for the arrays, 512 MiB.
double measure_bandwidth(int threads);

/// `machine` with the measured speeds in place of the assumed ones. Arithmetic outside matrix products is
/// taken to be as fast as f32 products are.
Machine measured_machine(Machine machine);

}  // namespace titan
