// Owners of cuBLASLt's handles, and its errors as exceptions.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <source_location>
#include <type_traits>

namespace titan::cuda {

struct LtDeleter {
  void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
  void operator()(cublasLtMatmulDesc_t desc) const { cublasLtMatmulDescDestroy(desc); }
  void operator()(cublasLtMatrixLayout_t layout) const { cublasLtMatrixLayoutDestroy(layout); }
  void operator()(cublasLtMatmulPreference_t preference) const {
    cublasLtMatmulPreferenceDestroy(preference);
  }
};
template <class Handle>
using LtOwner = std::unique_ptr<std::remove_pointer_t<Handle>, LtDeleter>;

using LtLibrary = LtOwner<cublasLtHandle_t>;
using LtDesc = LtOwner<cublasLtMatmulDesc_t>;
using LtLayout = LtOwner<cublasLtMatrixLayout_t>;
using LtPreference = LtOwner<cublasLtMatmulPreference_t>;

LtLibrary make_lt_library();
/// Of an f32 product with f32 factors alpha and beta, which are in host memory.
LtDesc make_lt_desc();
/// Column-major.
LtLayout make_lt_layout(cudaDataType_t type, std::int64_t rows, std::int64_t cols, std::int64_t ld);
LtPreference make_lt_preference();

/// Throws CudaError unless `status` is CUBLAS_STATUS_SUCCESS.
void check_lt(cublasStatus_t status, const char* expression,
              std::source_location place = std::source_location::current());

}  // namespace titan::cuda

#define TITAN_LT(expression) ::titan::cuda::check_lt((expression), #expression)
