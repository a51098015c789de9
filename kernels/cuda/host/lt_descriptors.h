// What the opaque handles of cublasLt.h hold.
#pragma once

#include <cublasLt.h>

struct cublasLtContext {};

struct cublasLtMatmulDescOpaque_t {
  std::int32_t compute_type, scale_type;
  std::int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N, transpose_c = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::int32_t sm_count_target = 0;
  std::int8_t fast_accumulation = 0;
  const void* scales[4] = {};        ///< of A, B, C and D
  std::int32_t scale_modes[4] = {};  ///< cublasLtMatmulMatrixScale_t
};

struct cublasLtMatrixLayoutOpaque_t {
  std::uint32_t type;
  std::uint64_t rows, cols;
  std::int64_t ld;
  std::int32_t order = CUBLASLT_ORDER_COL;
  std::int32_t batch_count = 1;
  std::int64_t batch_stride = 0;

  std::int64_t row_stride() const { return order == CUBLASLT_ORDER_COL ? 1 : ld; }
  std::int64_t col_stride() const { return order == CUBLASLT_ORDER_COL ? ld : 1; }
};

struct cublasLtMatmulPreferenceOpaque_t {
  std::uint32_t search_mode = CUBLASLT_SEARCH_BEST_FIT;
  std::uint64_t max_workspace_bytes = 0;
  std::uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignments[4] = {256, 256, 256, 256};  ///< of A, B, C and D
};

namespace titan::cuda::host {

/// An attribute's place in its descriptor; no bytes: there is no such attribute.
struct Attribute {
  void* at = nullptr;
  std::size_t bytes = 0;
};

/// As all ...SetAttribute and ...GetAttribute functions do it.
cublasStatus_t set_attribute(const Attribute& attribute, const void* value, std::size_t bytes);
cublasStatus_t get_attribute(const Attribute& attribute, void* value, std::size_t bytes,
                             std::size_t* written);

}  // namespace titan::cuda::host
