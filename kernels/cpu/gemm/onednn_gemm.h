// GEMM by oneDNN's matmul, its primitives cached by everything that shapes them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cpu/gemm/gemm_problem.h"

namespace titan::cpu {

class OneDnnGemm {
 public:
  OneDnnGemm();
  ~OneDnnGemm();

  /// m, n, k >= 1. Uses `workspace` as scratchpad when it is large enough, else a buffer of its own. oneDNN
  /// runs on the OpenMP threads of the caller.
  void multiply(const GemmProblem& problem, void* workspace, std::int64_t workspace_bytes);
  /// Scratchpad that multiply() needs for this problem.
  std::int64_t workspace_bytes(const GemmProblem& problem);
  std::int64_t buffer_bytes() const;

  static std::string version();

 private:
  struct Cache;
  std::unique_ptr<Cache> cache_;
};

}  // namespace titan::cpu
