#include "kernels/cuda/gemm/lt_handles.h"

#include <fmt/format.h>

#include "kernels/cuda/base/check.h"

namespace titan::cuda {

LtLibrary make_lt_library() {
  cublasLtHandle_t handle = nullptr;
  TITAN_LT(cublasLtCreate(&handle));
  return LtLibrary(handle);
}

LtDesc make_lt_desc() {
  cublasLtMatmulDesc_t desc = nullptr;
  TITAN_LT(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  return LtDesc(desc);
}

LtLayout make_lt_layout(cudaDataType_t type, std::int64_t rows, std::int64_t cols, std::int64_t ld) {
  cublasLtMatrixLayout_t layout = nullptr;
  TITAN_LT(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows),
                                      static_cast<std::uint64_t>(cols), ld));
  return LtLayout(layout);
}

LtPreference make_lt_preference() {
  cublasLtMatmulPreference_t preference = nullptr;
  TITAN_LT(cublasLtMatmulPreferenceCreate(&preference));
  return LtPreference(preference);
}

void check_lt(cublasStatus_t status, const char* expression, std::source_location place) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CudaError(fmt::format("{}: {} ({}) at {}:{}", expression, cublasLtGetStatusString(status),
                              cublasLtGetStatusName(status), place.file_name(), place.line()));
}

}  // namespace titan::cuda
