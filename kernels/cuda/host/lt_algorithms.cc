#include "kernels/cuda/host/lt_algorithms.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "kernels/cuda/host/device.h"
#include "kernels/cuda/host/lt_product.h"

namespace titan::cuda::host {
namespace {

using Desc = cublasLtMatmulDescOpaque_t;
using Layout = cublasLtMatrixLayoutOpaque_t;

constexpr std::int64_t kTensorCoreBytes = 16;
constexpr std::uint64_t kMagic = 0x74695f6f67746c63;  // marks algorithms of this library

constexpr std::array<Algorithm, 5> kAlgorithms{{
    {21, CUBLASLT_MATMUL_TILE_128x128, 1, CUBLASLT_REDUCTION_SCHEME_NONE, kTensorCoreBytes},
    {23, CUBLASLT_MATMUL_TILE_64x64, 2, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, kTensorCoreBytes},
    {24, CUBLASLT_MATMUL_TILE_64x64, 4, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, kTensorCoreBytes},
    {10, CUBLASLT_MATMUL_TILE_32x32, 1, CUBLASLT_REDUCTION_SCHEME_NONE, 1},
    {13, CUBLASLT_MATMUL_TILE_32x32, 3, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 1},
}};
constexpr std::size_t kId = 1, kTile = 2, kSplits = 3, kScheme = 4;  // places in cublasLtMatmulAlgo_t::data

cublasLtMatmulAlgo_t encode(const Algorithm& algorithm) {
  cublasLtMatmulAlgo_t algo{};
  algo.data[0] = kMagic;
  algo.data[kId] = static_cast<std::uint64_t>(algorithm.id);
  algo.data[kTile] = algorithm.tile;
  algo.data[kSplits] = static_cast<std::uint64_t>(algorithm.splits);
  algo.data[kScheme] = algorithm.scheme;
  return algo;
}

bool is_layout(const Layout& layout) {
  const bool by_col = layout.order == CUBLASLT_ORDER_COL, by_row = layout.order == CUBLASLT_ORDER_ROW;
  const auto contiguous = static_cast<std::int64_t>(by_col ? layout.rows : layout.cols);
  return (by_col || by_row) && layout.rows > 0 && layout.cols > 0 && layout.ld >= contiguous &&
         layout.batch_count > 0 && layout.batch_stride >= 0;
}

bool shapes_agree(const Desc& desc, const Layouts& layouts) {
  const std::uint64_t m = layouts.d->rows, n = layouts.d->cols,
                      k = desc.transpose_a == CUBLAS_OP_N ? layouts.a->cols : layouts.a->rows;
  const auto is = [](const Layout& layout, std::uint64_t rows, std::uint64_t cols, bool transposed) {
    return layout.rows == (transposed ? cols : rows) && layout.cols == (transposed ? rows : cols);
  };
  return is(*layouts.a, m, k, desc.transpose_a != CUBLAS_OP_N) &&
         is(*layouts.b, k, n, desc.transpose_b != CUBLAS_OP_N) && is(*layouts.c, m, n, false);
}

/// The type combinations of CUBLAS_COMPUTE_32F, but for f16 and 8-bit results.
bool types_are_supported(const Layouts& layouts) {
  const std::uint32_t a = layouts.a->type, b = layouts.b->type, d = layouts.d->type;
  if (layouts.c->type != d) return false;
  if (a == CUDA_R_32F || b == CUDA_R_32F) return a == b && d == CUDA_R_32F;
  if (d != CUDA_R_32F && d != CUDA_R_16BF) return false;
  if (a == CUDA_R_16BF || b == CUDA_R_16BF) return a == b;
  return is_float8(*layouts.a) && is_float8(*layouts.b) && (a == CUDA_R_8F_E4M3 || b == CUDA_R_8F_E4M3);
}

cublasStatus_t check_scales(const Desc& desc, const Layouts& layouts) {
  constexpr auto kScalar = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
                 kByRow = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  for (int i = 0; i < 4; ++i)
    if (!is_float8(*layouts[i]) && (desc.scales[i] != nullptr || desc.scale_modes[i] != kScalar))
      return CUBLAS_STATUS_INVALID_VALUE;
  const std::int32_t mode = desc.scale_modes[0];
  if (desc.scale_modes[1] != mode || (mode != kScalar && mode != kByRow)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (mode == kByRow && Device::get().hardware.compute_capability != 90) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (mode == kByRow && (desc.scales[0] == nullptr || desc.scales[1] == nullptr))
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

/// Tensor cores of Hopper take 8-bit A transposed and B not, in units of 16 bytes.
bool float8_is_supported(const Desc& desc, const Layouts& layouts) {
  if (Device::get().hardware.compute_capability < 89) return false;
  if (desc.transpose_a != CUBLAS_OP_T || desc.transpose_b != CUBLAS_OP_N) return false;
  for (int i = 0; i < 4; ++i)
    if (layouts[i]->order != CUBLASLT_ORDER_COL ||
        layouts[i]->ld * bytes_of(static_cast<cudaDataType>(layouts[i]->type)) % kTensorCoreBytes != 0)
      return false;
  return rows(layouts) % kTensorCoreBytes == 0 && cols(layouts) % kTensorCoreBytes == 0 &&
         depth(desc, layouts) % kTensorCoreBytes == 0;
}

bool desc_is_supported(const Desc& desc) {
  const auto known = [](std::int32_t op) { return op == CUBLAS_OP_N || op == CUBLAS_OP_T; };
  return desc.compute_type == CUBLAS_COMPUTE_32F && desc.scale_type == CUDA_R_32F &&
         (desc.pointer_mode == CUBLASLT_POINTER_MODE_HOST ||
          desc.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE) &&
         known(desc.transpose_a) && known(desc.transpose_b) && desc.transpose_c == CUBLAS_OP_N &&
         desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT && desc.sm_count_target >= 0;
}

/// Whether every column (of row-major matrices: row) starts at a multiple of `bytes` when the first does.
bool keeps_alignment(const Layout& layout, std::int64_t bytes) {
  const std::int64_t size = bytes_of(static_cast<cudaDataType>(layout.type));
  return layout.ld * size % bytes == 0 && layout.batch_stride * size % bytes == 0;
}

/// Long sums of small results are cut into pieces first.
std::vector<Algorithm> in_order(std::int64_t m, std::int64_t n, std::int64_t k) {
  std::vector<Algorithm> all(kAlgorithms.begin(), kAlgorithms.end());
  if (k >= 4 * std::max(m, n))
    std::stable_sort(all.begin(), all.end(),
                     [](const Algorithm& x, const Algorithm& y) { return (x.splits > 1) > (y.splits > 1); });
  return all;
}

bool is_preferred(const Algorithm& algorithm, const Layouts& layouts,
                  const cublasLtMatmulPreferenceOpaque_t& preference, std::size_t workspace) {
  if (workspace > preference.max_workspace_bytes) return false;
  if (algorithm.scheme != CUBLASLT_REDUCTION_SCHEME_NONE &&
      (algorithm.scheme & preference.reduction_schemes) == 0)
    return false;
  for (int i = 0; i < 4; ++i) {
    const auto aligned = static_cast<std::int64_t>(preference.alignments[i]);
    if (aligned < algorithm.alignment_bytes || aligned < pointer_alignment(layouts, i)) return false;
  }
  return true;
}

Attribute find(cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoConfigAttributes_t attr) {
  constexpr std::size_t kPlaces[] = {kId, kTile, kSplits, kScheme};
  return static_cast<std::size_t>(attr) < std::size(kPlaces) ? Attribute{&algo.data[kPlaces[attr]], 4}
                                                             : Attribute{};
}

}  // namespace

bool is_float8(const Layout& layout) {
  return layout.type == CUDA_R_8F_E4M3 || layout.type == CUDA_R_8F_E5M2;
}
std::int64_t rows(const Layouts& layouts) { return static_cast<std::int64_t>(layouts.d->rows); }
std::int64_t cols(const Layouts& layouts) { return static_cast<std::int64_t>(layouts.d->cols); }
std::int64_t depth(const Desc& desc, const Layouts& layouts) {
  return static_cast<std::int64_t>(desc.transpose_a == CUBLAS_OP_N ? layouts.a->cols : layouts.a->rows);
}

cublasStatus_t check_product(const Desc* desc, const Layouts& layouts) {
  if (desc == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  for (int i = 0; i < 4; ++i)
    if (layouts[i] == nullptr || !is_layout(*layouts[i]) || layouts[i]->batch_count != layouts.d->batch_count)
      return CUBLAS_STATUS_INVALID_VALUE;
  if (!desc_is_supported(*desc)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!shapes_agree(*desc, layouts)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!types_are_supported(layouts)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (is_float8(*layouts.a) && !float8_is_supported(*desc, layouts)) return CUBLAS_STATUS_NOT_SUPPORTED;
  return check_scales(*desc, layouts);
}

std::int64_t pointer_alignment(const Layouts& layouts, int matrix) {
  return is_float8(*layouts.a) ? kTensorCoreBytes
                               : bytes_of(static_cast<cudaDataType>(layouts[matrix]->type));
}

std::optional<Algorithm> decode(const cublasLtMatmulAlgo_t& algo) {
  if (algo.data[0] != kMagic) return std::nullopt;
  for (const Algorithm& known : kAlgorithms) {
    if (static_cast<std::uint64_t>(known.id) != algo.data[kId]) continue;
    Algorithm algorithm = known;
    algorithm.tile = static_cast<std::uint32_t>(algo.data[kTile]);
    algorithm.splits = static_cast<std::int32_t>(algo.data[kSplits]);
    algorithm.scheme = static_cast<std::uint32_t>(algo.data[kScheme]);
    return algorithm;
  }
  return std::nullopt;
}

cublasStatus_t check_algorithm(const Algorithm& algorithm, const Desc& desc, const Layouts& layouts,
                               std::size_t& workspace) {
  if (algorithm.splits < 1 || (algorithm.splits > 1) != (algorithm.scheme != CUBLASLT_REDUCTION_SCHEME_NONE))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (algorithm.splits > depth(desc, layouts) || algorithm.scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  for (int i = 0; i < 4; ++i)
    if (!keeps_alignment(*layouts[i], algorithm.alignment_bytes)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const std::int64_t partial = algorithm.splits > 1 ? algorithm.splits * rows(layouts) * cols(layouts) : 0;
  workspace = static_cast<std::size_t>(partial) * sizeof(float);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace titan::cuda::host

namespace host = titan::cuda::host;

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int* returned) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (preference == nullptr || requested <= 0) return CUBLAS_STATUS_INVALID_VALUE;
  *returned = 0;
  const host::Layouts layouts{a, b, c, d};
  if (const cublasStatus_t status = host::check_product(desc, layouts); status != CUBLAS_STATUS_SUCCESS)
    return status;
  for (const host::Algorithm& algorithm :
       host::in_order(host::rows(layouts), host::cols(layouts), host::depth(*desc, layouts))) {
    std::size_t workspace = 0;
    if (host::check_algorithm(algorithm, *desc, layouts, workspace) != CUBLAS_STATUS_SUCCESS ||
        !host::is_preferred(algorithm, layouts, *preference, workspace) || *returned == requested)
      continue;
    results[(*returned)++] = {.algo = host::encode(algorithm),
                              .workspaceSize = workspace,
                              .state = CUBLAS_STATUS_SUCCESS,
                              .wavesCount = 1,
                              .reserved = {}};
  }
  return *returned > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const host::Layouts layouts{a, b, c, d};
  if (const cublasStatus_t status = host::check_product(desc, layouts); status != CUBLAS_STATUS_SUCCESS)
    return status;
  const std::optional<host::Algorithm> algorithm = host::decode(*algo);
  if (!algorithm) return CUBLAS_STATUS_INVALID_VALUE;
  *result = {
      .algo = *algo, .workspaceSize = 0, .state = CUBLAS_STATUS_SUCCESS, .wavesCount = 1, .reserved = {}};
  return result->state = host::check_algorithm(*algorithm, *desc, layouts, result->workspaceSize);
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attr,
                                                    const void* value, std::size_t bytes) {
  if (attr == CUBLASLT_ALGO_CONFIG_ID) return CUBLAS_STATUS_INVALID_VALUE;
  return host::set_attribute(host::find(*algo, attr), value, bytes);
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attr, void* value,
                                                    std::size_t bytes, std::size_t* written) {
  cublasLtMatmulAlgo_t copy = *algo;
  return host::get_attribute(host::find(copy, attr), value, bytes, written);
}
