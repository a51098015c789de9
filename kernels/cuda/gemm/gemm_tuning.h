// Choosing the fastest of several algorithms by measurement.
#pragma once

#include <cuda_runtime.h>

#include <functional>

#include "kernels/base/function_ref.h"

namespace titan::cuda {

/// Seconds of what `launch` puts into the stream.
using Stopwatch = std::function<double(FunctionRef<void()> launch, cudaStream_t stream)>;

/// By events; returns when the stream has finished.
double time_in_stream(FunctionRef<void()> launch, cudaStream_t stream);

/// Launches each of `count` candidates once to warm up, then `repeats` times. The one with the smallest
/// median; among equals the first.
int fastest(int count, int repeats, FunctionRef<void(int candidate)> launch, const Stopwatch& stopwatch,
            cudaStream_t stream);

}  // namespace titan::cuda
