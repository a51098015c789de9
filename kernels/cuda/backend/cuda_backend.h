// The CUDA backend: lanes are streams, waits are events, one host thread enqueues everything in list order.
// A command list that runs again is captured into a CUDA graph.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/library/api.h"
#include "kernels/op/backend.h"

namespace titan::cuda {

/// Throws UserError when the device does not exist or cannot be used.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);

/// The devices that the runtime sees. Throws CudaError when it cannot say.
std::vector<CudaDevice> cuda_devices();

/// Driver, runtime and libraries, one fact a line.
std::string describe_cuda();

}  // namespace titan::cuda
