// What the executable and libtitan_cuda.so say to each other: one table of functions. Plain C++ without any
// CUDA header, so that the executable builds and starts where there is none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/op/backend.h"

namespace titan::cuda {

struct CudaDevice {
  std::string name;
  int compute_capability = 0;  ///< major · 10 + minor
  int multiprocessors = 0;
  std::int64_t memory_bytes = 0;
  std::string attention = {};  ///< the kernels that attention takes there, and those it does not trust yet
};

struct CudaOptions {
  int device = 0;
  /// Runs commands that are `on_host`, one at a time; a CPU backend.
  std::shared_ptr<Backend> host = nullptr;
  /// Choose the algorithm of each matrix product by measurement when it is first seen, and keep the choices
  /// in this file: who finds it there makes the same ones. Empty: the library's heuristic chooses.
  std::string gemm_table = {};
  /// Multiprocessors that matrix products are meant to use, so that what runs beside them keeps the others;
  /// 0: all.
  int gemm_multiprocessors = 0;
  /// Capture command lists that run again into graphs.
  bool graphs = true;
  /// Wait after every command: an error names the node that it is in.
  bool synchronous = false;
};

struct CudaApi {
  const char* build;  ///< must be the executable's kBuild
  /// Takes memory on none of them. Throws UserError with the reason when there is none.
  std::vector<CudaDevice> (*devices)();
  /// As it is once this process has its share of it. Throws UserError when the device cannot be used.
  titan::DeviceMemory (*memory)(int device);
  std::string (*describe)();
  std::unique_ptr<Backend> (*make_backend)(const CudaOptions&);
};

/// Version and compiler: both sides pass C++ objects.
inline constexpr const char* kBuild = "titan " TITAN_VERSION ", " __VERSION__;

/// The one symbol of the library.
inline constexpr const char* kApiSymbol = "titan_cuda_api";
using GetApi = const CudaApi* (*)();

}  // namespace titan::cuda
