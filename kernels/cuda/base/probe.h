// Whether this library holds code for the current device.
#pragma once

#include <cuda_runtime.h>

namespace titan::cuda {

/// cudaErrorNoKernelImageForDevice or cudaErrorInvalidDeviceFunction when it does not.
cudaError_t look_for_kernels();

}  // namespace titan::cuda
