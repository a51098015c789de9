#include "kernels/cuda/host/lt_descriptors.h"

#include <cstring>

namespace titan::cuda::host {

cublasStatus_t set_attribute(const Attribute& attribute, const void* value, std::size_t bytes) {
  if (value == nullptr || attribute.bytes == 0 || bytes != attribute.bytes)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(attribute.at, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t get_attribute(const Attribute& attribute, void* value, std::size_t bytes,
                             std::size_t* written) {
  if (attribute.bytes == 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes == 0) {
    if (written == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *written = attribute.bytes;
    return CUBLAS_STATUS_SUCCESS;
  }
  if (value == nullptr || bytes != attribute.bytes) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, attribute.at, bytes);
  if (written != nullptr) *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

namespace {

template <class T>
Attribute place(T& field) {
  return {&field, sizeof field};
}

Attribute find(cublasLtMatmulDescOpaque_t& desc, cublasLtMatmulDescAttributes_t attr) {
  switch (attr) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return place(desc.compute_type);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return place(desc.scale_type);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return place(desc.pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return place(desc.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return place(desc.transpose_b);
    case CUBLASLT_MATMUL_DESC_TRANSC:
      return place(desc.transpose_c);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return place(desc.epilogue);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return place(desc.sm_count_target);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
    case CUBLASLT_MATMUL_DESC_C_SCALE_POINTER:
    case CUBLASLT_MATMUL_DESC_D_SCALE_POINTER:
      return place(desc.scales[attr - CUBLASLT_MATMUL_DESC_A_SCALE_POINTER]);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      return place(desc.fast_accumulation);
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
    case CUBLASLT_MATMUL_DESC_C_SCALE_MODE:
    case CUBLASLT_MATMUL_DESC_D_SCALE_MODE:
      return place(desc.scale_modes[attr - CUBLASLT_MATMUL_DESC_A_SCALE_MODE]);
  }
  return {};
}

Attribute find(cublasLtMatrixLayoutOpaque_t& layout, cublasLtMatrixLayoutAttribute_t attr) {
  switch (attr) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return place(layout.type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return place(layout.order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return place(layout.rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return place(layout.cols);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return place(layout.ld);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return place(layout.batch_count);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return place(layout.batch_stride);
  }
  return {};
}

Attribute find(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attr) {
  switch (attr) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
      return place(preference.search_mode);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return place(preference.max_workspace_bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return place(preference.reduction_schemes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return place(preference.alignments[attr - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES]);
  }
  return {};
}

template <class Handle, class Attr>
cublasStatus_t set(Handle handle, Attr attr, const void* value, std::size_t bytes) {
  return handle == nullptr ? CUBLAS_STATUS_INVALID_VALUE : set_attribute(find(*handle, attr), value, bytes);
}
template <class Handle, class Attr>
cublasStatus_t get(Handle handle, Attr attr, void* value, std::size_t bytes, std::size_t* written) {
  return handle == nullptr ? CUBLAS_STATUS_INVALID_VALUE
                           : get_attribute(find(*handle, attr), value, bytes, written);
}
template <class Handle>
cublasStatus_t destroy(Handle handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace titan::cuda::host

namespace host = titan::cuda::host;

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute_type,
                                        cudaDataType_t scale_type) {
  *desc = new cublasLtMatmulDescOpaque_t{.compute_type = compute_type, .scale_type = scale_type};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return host::destroy(desc); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attr,
                                              const void* value, std::size_t bytes) {
  return host::set(desc, attr, value, bytes);
}
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attr,
                                              void* value, std::size_t bytes, std::size_t* written) {
  return host::get(desc, attr, value, bytes, written);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  *layout = new cublasLtMatrixLayoutOpaque_t{
      .type = static_cast<std::uint32_t>(type), .rows = rows, .cols = cols, .ld = ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return host::destroy(layout); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attr, const void* value,
                                                std::size_t bytes) {
  return host::set(layout, attr, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attr, void* value,
                                                std::size_t bytes, std::size_t* written) {
  return host::get(layout, attr, value, bytes, written);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return host::destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attr,
                                                    const void* value, std::size_t bytes) {
  return host::set(preference, attr, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attr, void* value,
                                                    std::size_t bytes, std::size_t* written) {
  return host::get(preference, attr, value, bytes, written);
}
