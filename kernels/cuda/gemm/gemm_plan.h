// One kind of product for cuBLASLt: its descriptors, the algorithms it may run by, and how to run it.
#pragma once

#include <vector>

#include "kernels/cuda/gemm/gemm_key.h"
#include "kernels/cuda/gemm/gemm_table.h"
#include "kernels/cuda/gemm/lt_handles.h"

namespace titan::cuda {

/// Where one product's operands are. Scales are f32 in device memory, as the key's `scales` says.
struct GemmData {
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  const void *scale_a = nullptr, *scale_b = nullptr;
  void* workspace = nullptr;
};

class GemmPlan {
 public:
  explicit GemmPlan(const GemmKey& key);

  /// Up to `most` algorithms, the one that cuBLASLt takes for the fastest first. Partial sums stay f32
  /// whatever c's type. Throws CudaError when there is none.
  std::vector<GemmAlgorithm> candidates(cublasLtHandle_t library, const GemmData& data, int most);
  /// Whether the library knows the algorithm, and runs it with the key's workspace.
  bool accepts(cublasLtHandle_t library, const GemmData& data, const GemmAlgorithm& algorithm);

  /// What run() runs.
  GemmAlgorithm algorithm{};
  void run(cublasLtHandle_t library, const GemmData& data, cudaStream_t stream);

  const GemmKey& key() const { return key_; }

 private:
  void set_scales(const GemmData& data);
  LtPreference preference() const;

  GemmKey key_;
  LtDesc desc_;
  LtLayout first_, second_, result_;
};

}  // namespace titan::cuda
