// The GPUs that the runtime sees, and why one cannot be used.
#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/library/api.h"

namespace titan::cuda {

/// The table's devices(). Looks at properties only: a context takes hundreds of megabytes of its device.
std::vector<CudaDevice> cuda_devices();

/// Makes the device this thread's, with its context. Throws UserError when there is no such device or it
/// cannot be used: the driver, another process, or no kernels for it.
void use_device(int device);

/// The table's memory().
titan::DeviceMemory cuda_memory(int device);
/// Of this thread's device, which can be used.
titan::DeviceMemory device_memory_now();

/// Driver, runtime and libraries, one fact a line.
std::string describe_cuda();

}  // namespace titan::cuda
