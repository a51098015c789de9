// The CPU backend: lanes are threads, the compute lane (0) owns the OpenMP team.
#pragma once

#include <memory>
#include <string>

#include "kernels/op/backend.h"

namespace titan::cpu {

/// Instruction sets the range kernels are compiled for, weakest first.
enum class Isa { baseline, avx2, avx512 };
/// The best this machine has. TITAN_CPU_ISA=baseline|avx2|avx512 lowers it (tests, comparisons).
Isa best_isa();
const char* to_string(Isa isa);

struct CpuOptions {
  int threads = 0;  ///< compute threads; 0 = all processors this process may use
  Isa isa = best_isa();
};

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options);

/// What `titan doctor` says about this backend, one fact a line: instruction sets, GEMM paths, threads.
std::string describe_cpu_backend(const CpuOptions& options);

}  // namespace titan::cpu
