// Errors of the CUDA libraries. One place turns a status into an exception; light enough for .cu files.
#pragma once

#include <cuda_runtime.h>

#include <source_location>
#include <stdexcept>

namespace titan::cuda {

/// A call of the CUDA runtime or a library failed: which, where, and what the library says.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {
[[noreturn]] void throw_cuda_error(cudaError_t error, const char* expression, std::source_location place);
}

/// Throws CudaError unless `error` is cudaSuccess.
inline void check(cudaError_t error, const char* expression,
                  std::source_location place = std::source_location::current()) {
  if (error != cudaSuccess) detail::throw_cuda_error(error, expression, place);
}

}  // namespace titan::cuda

#define TITAN_CUDA(expression) ::titan::cuda::check((expression), #expression)
