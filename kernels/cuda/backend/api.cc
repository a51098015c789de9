// The symbol that the executable looks up in libtitan_cuda.so.
#include "kernels/cuda/library/api.h"

#include "kernels/cuda/backend/cuda_backend.h"
#include "kernels/cuda/backend/devices.h"

extern "C" __attribute__((visibility("default"))) const titan::cuda::CudaApi* titan_cuda_api() {
  static const titan::cuda::CudaApi api{.build = titan::cuda::kBuild,
                                        .devices = titan::cuda::cuda_devices,
                                        .memory = titan::cuda::cuda_memory,
                                        .describe = titan::cuda::describe_cuda,
                                        .make_backend = titan::cuda::make_cuda_backend};
  return &api;
}
