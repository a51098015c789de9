#include "kernels/cuda/base/check.h"

#include <fmt/format.h>

namespace titan::cuda::detail {
namespace {

/// Errors of kernels, which every call reports from then on (driver_types.h has them together).
bool is_of_a_kernel(cudaError_t error) {
  constexpr int kIllegalAddress = 700, kLaunchFailure = 719;
  return error >= kIllegalAddress && error <= kLaunchFailure;
}

}  // namespace

void throw_cuda_error(cudaError_t error, const char* expression, std::source_location place) {
  throw CudaError(fmt::format("{}: {} ({}) at {}:{}{}", expression, cudaGetErrorString(error),
                              cudaGetErrorName(error), place.file_name(), place.line(),
                              is_of_a_kernel(error)
                                  ? "; it may be an earlier operation that failed: "
                                    "TITAN_CUDA_SYNCHRONOUS=1 tells which one, at the price of speed"
                                  : ""));
}

}  // namespace titan::cuda::detail
