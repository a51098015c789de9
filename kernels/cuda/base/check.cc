#include "kernels/cuda/base/check.h"

#include <fmt/format.h>

namespace titan::cuda::detail {

void throw_cuda_error(cudaError_t error, const char* expression, std::source_location place) {
  throw CudaError(fmt::format("{}: {} ({}) at {}:{}", expression, cudaGetErrorString(error),
                              cudaGetErrorName(error), place.file_name(), place.line()));
}

}  // namespace titan::cuda::detail
