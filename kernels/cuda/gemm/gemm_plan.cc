#include "kernels/cuda/gemm/gemm_plan.h"

#include <bit>
#include <limits>

#include "kernels/base/error.h"
#include "kernels/cuda/base/check.h"

// Row-major and column-major. cuBLASLt's 8-bit and fastest kernels are for column-major matrices. A row-major
// matrix read as column-major is its transpose, so titan's
//     C [m, n]  = op(a)·op(b)                  is to cuBLASLt
//     Cᵀ [n, m] = op(b)ᵀ·op(a)ᵀ :
// b is the first factor ("A") and a the second ("B"); rows and columns of all layouts are exchanged, pitches
// are leading dimensions, and each factor is transposed where titan's flag says so: op(b)ᵀ is, of the bᵀ that
// cuBLASLt sees, bᵀ itself without the flag and its transpose with it. The scales go with their factors.

namespace titan::cuda {
namespace {

constexpr float kOne = 1, kZero = 0;

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f8e4m3:
      return CUDA_R_8F_E4M3;
    case DType::f8e5m2:
      return CUDA_R_8F_E5M2;
    default:
      TITAN_CHECK(false, "{} is not multiplied", to_string(dtype));
      return CUDA_R_32F;
  }
}

template <class T>
void set(const LtDesc& desc, cublasLtMatmulDescAttributes_t attribute, T value) {
  TITAN_LT(cublasLtMatmulDescSetAttribute(desc.get(), attribute, &value, sizeof value));
}
template <class T>
void set(const LtPreference& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  TITAN_LT(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value));
}

std::int32_t transposition(bool flag) { return flag ? CUBLAS_OP_T : CUBLAS_OP_N; }

/// A row-major matrix, as its transpose. The pitch of a single row means nothing.
LtLayout layout_of(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t pitch) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  TITAN_CHECK(rows <= kMost && cols <= kMost, "cuBLASLt does not take a matrix of {} x {}", rows, cols);
  return make_lt_layout(type_of(dtype), cols, rows, rows == 1 && pitch < cols ? cols : pitch);
}

cublasLtMatmulAlgo_t as_lt(const GemmAlgorithm& algorithm) {
  static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(GemmAlgorithm));
  return std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
}

}  // namespace

GemmPlan::GemmPlan(const GemmKey& key)
    : key_(key),
      desc_(make_lt_desc()),
      first_(key.transpose_b ? layout_of(key.b, key.n, key.k, key.b_pitch)
                             : layout_of(key.b, key.k, key.n, key.b_pitch)),
      second_(key.transpose_a ? layout_of(key.a, key.k, key.m, key.a_pitch)
                              : layout_of(key.a, key.m, key.k, key.a_pitch)),
      result_(layout_of(key.c, key.m, key.n, key.c_pitch)) {
  set(desc_, CUBLASLT_MATMUL_DESC_TRANSA, transposition(key.transpose_b));
  set(desc_, CUBLASLT_MATMUL_DESC_TRANSB, transposition(key.transpose_a));
  if (key.multiprocessors > 0)
    set(desc_, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, static_cast<std::int32_t>(key.multiprocessors));
  if (key.fast_accumulation) set(desc_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
  if (key.scales == GemmScales::rows) {
    constexpr std::int32_t kMode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    set(desc_, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, kMode);
    set(desc_, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, kMode);
  }
}

void GemmPlan::set_scales(const GemmData& data) {
  if (key_.scales == GemmScales::none) return;
  set(desc_, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, data.scale_b);
  set(desc_, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, data.scale_a);
}

LtPreference GemmPlan::preference() const {
  LtPreference preference = make_lt_preference();
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(key_.workspace_bytes));
  // Not in c's type: it would round partial sums to bf16.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  const auto aligned = [&](cublasLtMatmulPreferenceAttributes_t attribute, std::int64_t bytes) {
    set(preference, attribute, static_cast<std::uint32_t>(bytes));
  };
  aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key_.b_alignment);
  aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key_.a_alignment);
  aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key_.c_alignment);
  aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key_.c_alignment);
  return preference;
}

std::vector<GemmAlgorithm> GemmPlan::candidates(cublasLtHandle_t library, const GemmData& data, int most) {
  set_scales(data);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library, desc_.get(), first_.get(), second_.get(), result_.get(),
                                     result_.get(), preference().get(), most, results.data(), &count);
  std::vector<GemmAlgorithm> algorithms;
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS)
      algorithms.push_back(std::bit_cast<GemmAlgorithm>(result.algo));
  }
  if (algorithms.empty())
    throw CudaError(fmt::format("cuBLASLt has no algorithm ({}) for the matrix product {} = {}",
                                cublasLtGetStatusName(status), key_columns(), to_text(key_)));
  return algorithms;
}

bool GemmPlan::accepts(cublasLtHandle_t library, const GemmData& data, const GemmAlgorithm& algorithm) {
  set_scales(data);
  const cublasLtMatmulAlgo_t algo = as_lt(algorithm);
  cublasLtMatmulHeuristicResult_t result{};
  return cublasLtMatmulAlgoCheck(library, desc_.get(), first_.get(), second_.get(), result_.get(),
                                 result_.get(), &algo, &result) == CUBLAS_STATUS_SUCCESS &&
         static_cast<std::int64_t>(result.workspaceSize) <= key_.workspace_bytes;
}

void GemmPlan::run(cublasLtHandle_t library, const GemmData& data, cudaStream_t stream) {
  set_scales(data);
  const cublasLtMatmulAlgo_t algo = as_lt(algorithm);
  TITAN_LT(cublasLtMatmul(library, desc_.get(), &kOne, data.b, first_.get(), data.a, second_.get(),
                          key_.adds ? &kOne : &kZero, data.c, result_.get(), data.c, result_.get(), &algo,
                          data.workspace, static_cast<std::size_t>(key_.workspace_bytes), stream));
}

}  // namespace titan::cuda
