// The speeds of a device, measured with the kernels that a step uses.
#pragma once

#include "app/trainer/device.h"
#include "kernels/base/dtype.h"
#include "kernels/cost/machine.h"

namespace titan {

/// FLOP/s of large matrix products of random values: f32, bf16 with f32 sums, or 8-bit floats into bf16 with
/// one scale a matrix and fast accumulation. The fastest of several runs: about two seconds.
double measure_gemm_peak(DType dtype, const DeviceRequest& device);

/// Bytes a second that copying large arrays moves, counting both those read and those written; on a CPU also
/// that reading them does (a sum of squares), the faster of both. Throws UserError when there is no memory
/// for the arrays, 512 MiB on a CPU and up to 2 GiB on a GPU.
double measure_bandwidth(const DeviceRequest& device);

/// `machine`, which is that device's, with the measured speeds in place of the assumed ones. Arithmetic
/// outside matrix products is taken to be as fast as f32 products are.
Machine measured_machine(Machine machine, const DeviceRequest& device);

/// Whether its matrix units take 8-bit floats.
bool multiplies_float8(const Machine& machine);

}  // namespace titan
