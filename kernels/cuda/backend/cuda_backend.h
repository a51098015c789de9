// The CUDA backend: lanes are streams, waits are events, one host thread enqueues everything in list order.
// A command list that runs again is captured into a CUDA graph.
#pragma once

#include <memory>

#include "kernels/cuda/library/api.h"
#include "kernels/op/backend.h"

namespace titan::cuda {

/// Throws UserError when the device does not exist or cannot be used.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);

}  // namespace titan::cuda
