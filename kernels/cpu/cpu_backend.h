// The CPU backend: lanes are threads, the compute lane (0) owns the OpenMP team. Commands that run on the CPU
// whatever the device is (Command::on_host) share it: beside a compute lane of the same processors they have
// nothing to win.
#pragma once

#include <memory>
#include <string>

#include "kernels/cpu/base/isa.h"
#include "kernels/cpu/gemm/gemm_engine.h"
#include "kernels/op/backend.h"

namespace titan::cpu {

struct CpuOptions {
  int threads = 0;  ///< compute threads; 0 = all processors this process may use. 1 = no OpenMP at all
  Isa isa = best_isa();
  GemmChoice gemm = asked_gemm_choice();
  bool host_thread = false;  ///< such commands get a thread of their own, one, as they have beside a GPU
  bool bind = true;  ///< one thread a processor, when the team fills all processors this process may use
};

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options);

/// What `titan doctor` says about this backend, one fact a line: instruction sets, GEMM paths, threads.
std::string describe_cpu_backend(const CpuOptions& options);

}  // namespace titan::cpu
