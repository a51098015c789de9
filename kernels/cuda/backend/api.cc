// The symbol that the executable looks up in libtitan_cuda.so.
#include "kernels/cuda/library/api.h"

#include "kernels/cuda/backend/cuda_backend.h"

extern "C" __attribute__((visibility("default"))) const titan::cuda::CudaApi* titan_cuda_api() {
  static const titan::cuda::CudaApi api{.build = titan::cuda::kBuild,
                                        .devices = titan::cuda::cuda_devices,
                                        .describe = titan::cuda::describe_cuda,
                                        .make_backend = titan::cuda::make_cuda_backend};
  return &api;
}
