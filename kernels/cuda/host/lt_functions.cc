// cublasLtMatmul and the handle of cublasLt.h.
#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/host/lt_algorithms.h"
#include "kernels/cuda/host/lt_product.h"
#include "kernels/cuda/host/streams.h"

namespace titan::cuda::host {
namespace {

using Layout = cublasLtMatrixLayoutOpaque_t;

/// All of one call of cublasLtMatmul: what may change later is copied.
struct Product {
  cublasLtMatmulDescOpaque_t desc;
  Layout layouts[4];          ///< of A, B, C and D
  const void* data[4];        ///< C may be absent when beta is 0
  const float *alpha, *beta;  ///< in device memory, or null:
  float alpha_value, beta_value;
  Algorithm algorithm;
  float* workspace;

  std::int64_t rows() const { return static_cast<std::int64_t>(layouts[3].rows); }
  std::int64_t cols() const { return static_cast<std::int64_t>(layouts[3].cols); }
};

cudaDataType type_of(const Layout& layout) { return static_cast<cudaDataType>(layout.type); }

void check_memory(const char* name, const void* p, std::int64_t bytes) {
  if (!in_device_memory(p, static_cast<std::size_t>(bytes)))
    throw std::runtime_error(std::string("cublasLtMatmul: ") + name + " is not in device memory");
}

/// From the first to the last byte of all matrices of a batch.
std::int64_t extent(const Layout& layout) {
  const std::int64_t r = static_cast<std::int64_t>(layout.rows) - 1,
                     c = static_cast<std::int64_t>(layout.cols) - 1;
  return (r * layout.row_stride() + c * layout.col_stride() + (layout.batch_count - 1) * layout.batch_stride +
          1) *
         bytes_of(type_of(layout));
}

void check_memory(const Product& p, bool reads_c) {
  constexpr const char* kNames[] = {"A", "B", "C", "D"};
  for (int i = 0; i < 4; ++i)
    if (i != 2 || reads_c) check_memory(kNames[i], p.data[i], extent(p.layouts[i]));
  for (int i = 0; i < 2; ++i) {
    const bool by_row = p.desc.scale_modes[i] == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    const std::int64_t count = by_row ? (i == 0 ? p.rows() : p.cols()) : 1;
    if (p.desc.scales[i] != nullptr) check_memory("a scale", p.desc.scales[i], count * 4);
  }
  if (p.algorithm.splits > 1)
    check_memory("the workspace", p.workspace, p.algorithm.splits * p.rows() * p.cols() * 4);
}

/// op(matrix) of one member of the batch.
StridedMatrix view(const Product& p, int matrix, std::int32_t transpose, std::int64_t batch) {
  const Layout& layout = p.layouts[matrix];
  const auto* const data =
      static_cast<const std::byte*>(p.data[matrix]) + batch * layout.batch_stride * bytes_of(type_of(layout));
  if (transpose == CUBLAS_OP_N) return {data, type_of(layout), layout.row_stride(), layout.col_stride()};
  return {data, type_of(layout), layout.col_stride(), layout.row_stride()};
}

/// The sums over k, of one piece after the other when the algorithm cuts them.
std::vector<float> sums_of(const Product& p, std::int64_t batch) {
  const StridedMatrix a = view(p, 0, p.desc.transpose_a, batch), b = view(p, 1, p.desc.transpose_b, batch);
  const std::int64_t size = p.rows() * p.cols(), splits = p.algorithm.splits;
  const auto k =
      static_cast<std::int64_t>(p.desc.transpose_a == CUBLAS_OP_N ? p.layouts[0].cols : p.layouts[0].rows);
  std::vector<float> sums(static_cast<std::size_t>(size));
  if (splits == 1) {
    multiply(a, b, p.rows(), p.cols(), k, sums.data());
    return sums;
  }
  for (std::int64_t s = 0; s < splits; ++s) {
    const std::int64_t begin = s * k / splits, end = (s + 1) * k / splits;
    const auto shifted = [begin](const StridedMatrix& matrix, std::int64_t stride) {
      StridedMatrix piece = matrix;
      piece.data = static_cast<const std::byte*>(matrix.data) + begin * stride * bytes_of(matrix.type);
      return piece;
    };
    multiply(shifted(a, a.col_stride), shifted(b, b.row_stride), p.rows(), p.cols(), end - begin,
             p.workspace + s * size);
  }
  const bool rounds = p.algorithm.scheme == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  for (std::int64_t s = 0; s < splits; ++s)
    for (std::int64_t i = 0; i < size; ++i) {
      float partial = p.workspace[s * size + i];
      if (rounds)
        store(type_of(p.layouts[3]), &partial, 0, partial),
            partial = load(type_of(p.layouts[3]), &partial, 0);
      sums[static_cast<std::size_t>(i)] += partial;
    }
  return sums;
}

/// The factor of element (i, j) that the scales of A and B make.
struct Scales {
  explicit Scales(const cublasLtMatmulDescOpaque_t& desc)
      : a(static_cast<const float*>(desc.scales[0])),
        b(static_cast<const float*>(desc.scales[1])),
        by_row(desc.scale_modes[0] == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F) {}
  float operator()(std::int64_t i, std::int64_t j) const {
    return (a != nullptr ? a[by_row ? i : 0] : 1.0f) * (b != nullptr ? b[by_row ? j : 0] : 1.0f);
  }
  const float *a, *b;
  bool by_row;
};

void run_batch(const Product& p, std::int64_t batch, float alpha, float beta) {
  const std::vector<float> sums = sums_of(p, batch);
  const StridedMatrix c = view(p, 2, CUBLAS_OP_N, batch), d = view(p, 3, CUBLAS_OP_N, batch);
  const Scales scales(p.desc);
  const std::int64_t m = p.rows(), n = p.cols();
#pragma omp parallel for if (m * n > 1 << 16)
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < m; ++i) {
      float x = alpha * (scales(i, j) * sums[static_cast<std::size_t>(i + m * j)]);
      if (beta != 0) x += beta * load(c.type, c.data, i * c.row_stride + j * c.col_stride);
      store(d.type, const_cast<void*>(d.data), i * d.row_stride + j * d.col_stride, x);
    }
}

void run(const Product& p) {
  const float alpha = p.alpha != nullptr ? *p.alpha : p.alpha_value,
              beta = p.beta != nullptr ? *p.beta : p.beta_value;
  check_memory(p, beta != 0);
  for (std::int64_t batch = 0; batch < p.layouts[3].batch_count; ++batch) run_batch(p, batch, alpha, beta);
}

bool is_multiple(const void* p, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(p) % static_cast<std::uintptr_t>(bytes) == 0;
}

/// Whether pointers are there, and are what product and algorithm need.
bool pointers_fit(const Layouts& layouts, const Algorithm& algorithm, const void* const (&data)[4],
                  bool reads_c) {
  for (int i = 0; i < 4; ++i) {
    if (i == 2 && !reads_c && data[i] == nullptr) continue;
    const std::int64_t alignment = std::max(algorithm.alignment_bytes, pointer_alignment(layouts, i));
    if (data[i] == nullptr || !is_multiple(data[i], alignment)) return false;
  }
  const auto same = [](const Layout& x, const Layout& y) {
    return x.type == y.type && x.ld == y.ld && x.order == y.order && x.batch_stride == y.batch_stride;
  };
  return data[2] != data[3] || same(*layouts.c, *layouts.d);
}

/// What the heuristic says of these pointers, for calls without an algorithm.
std::optional<Algorithm> choose(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                const void* const (&data)[4], std::size_t workspace_bytes) {
  cublasLtMatmulPreferenceOpaque_t preference;
  preference.max_workspace_bytes = workspace_bytes;
  for (int i = 0; i < 4; ++i)
    preference.alignments[i] = is_multiple(data[i], 16)  ? 16
                               : is_multiple(data[i], 4) ? 4
                               : is_multiple(data[i], 2) ? 2
                                                         : 1;
  cublasLtMatmulHeuristicResult_t best;
  int found = 0;
  cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, c, d, &preference, 1, &best, &found);
  return found > 0 ? decode(best.algo) : std::nullopt;
}

}  // namespace
}  // namespace titan::cuda::host

using namespace titan::cuda::host;  // NOLINT: this file defines functions of the library

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algo, void* workspace, std::size_t workspace_bytes,
                              cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Layouts layouts{a_layout, b_layout, c_layout, d_layout};
  if (const cublasStatus_t status = check_product(desc, layouts); status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (alpha == nullptr || beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const void* const data[4] = {a, b, c, d};
  const std::optional<Algorithm> algorithm =
      algo != nullptr ? decode(*algo)
                      : choose(handle, desc, a_layout, b_layout, c_layout, d_layout, data, workspace_bytes);
  if (!algorithm) return algo != nullptr ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_NOT_SUPPORTED;
  std::size_t needed = 0;
  if (const cublasStatus_t status = check_algorithm(*algorithm, *desc, layouts, needed);
      status != CUBLAS_STATUS_SUCCESS)
    return status;
  const bool on_device = desc->pointer_mode == CUBLASLT_POINTER_MODE_DEVICE;
  const auto *alpha_at = static_cast<const float*>(alpha), *beta_at = static_cast<const float*>(beta);
  if (needed > workspace_bytes || !is_multiple(workspace, 16) || (needed > 0 && workspace == nullptr) ||
      !pointers_fit(layouts, *algorithm, data, on_device || *beta_at != 0))
    return CUBLAS_STATUS_INVALID_VALUE;
  Product product{.desc = *desc,
                  .layouts = {*a_layout, *b_layout, *c_layout, *d_layout},
                  .data = {a, b, c, d},
                  .alpha = on_device ? alpha_at : nullptr,
                  .beta = on_device ? beta_at : nullptr,
                  .alpha_value = on_device ? 0 : *alpha_at,
                  .beta_value = on_device ? 0 : *beta_at,
                  .algorithm = *algorithm,
                  .workspace = static_cast<float*>(workspace)};
  enqueue(stream, [product] { run(product); });
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
std::size_t cublasLtGetVersion() { return 130100; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
#define TITAN_NAME(name) \
  case name:             \
    return #name;
    TITAN_NAME(CUBLAS_STATUS_SUCCESS)
    TITAN_NAME(CUBLAS_STATUS_NOT_INITIALIZED)
    TITAN_NAME(CUBLAS_STATUS_ALLOC_FAILED)
    TITAN_NAME(CUBLAS_STATUS_INVALID_VALUE)
    TITAN_NAME(CUBLAS_STATUS_ARCH_MISMATCH)
    TITAN_NAME(CUBLAS_STATUS_MAPPING_ERROR)
    TITAN_NAME(CUBLAS_STATUS_EXECUTION_FAILED)
    TITAN_NAME(CUBLAS_STATUS_INTERNAL_ERROR)
    TITAN_NAME(CUBLAS_STATUS_NOT_SUPPORTED)
#undef TITAN_NAME
  }
  return "unknown status";
}
const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }
