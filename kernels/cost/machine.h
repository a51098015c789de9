// What a machine can do, as plain data: the only thing the compiler knows of hardware. It comes from the
// table below, from configs/hardware/*.toml, or is measured once by rank 0: never from a rank's own clock, so
// that all ranks compile the same programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/base/dtype.h"
#include "kernels/op/axis.h"

namespace titan {

enum class DeviceKind : std::uint8_t { cpu, cuda };

/// Between two ranks, one direction.
struct Link {
  double bytes_per_second = 0;
  double latency_seconds = 0;
};

/// One device: a rank's share of the hardware.
struct Machine {
  std::string name;
  DeviceKind kind = DeviceKind::cpu;
  std::string isa;                                     ///< "avx2", "sm_90a"
  int threads = 1;                                     ///< compute threads; 1 on a GPU
  double flops_f8 = 0, flops_bf16 = 0, flops_f32 = 0;  ///< peak FLOP/s of matrix products, dense
  double vector_flops = 0;                             ///< peak f32 FLOP/s outside matrix units
  double memory_bytes_per_second = 0;                  ///< of the main memory
  double launch_seconds = 0;                           ///< per operation
  std::int64_t memory_bytes = 0;
  /// Of memory_bytes, what is kept free for libraries' kernels and graphs, which come after the arena. How
  /// much they take is measured in a run.
  std::int64_t reserved_bytes = 0;
  Link near, far;                    ///< within a node; between nodes
  Link host{0, 0};                   ///< to host memory, one direction; no bandwidth: the device is the host
  double host_bytes_per_second = 0;  ///< of host memory, this device's share
  std::int64_t gemm_workspace_bytes = 0;  ///< scratch that a matrix product may ask for

  double matrix_flops(DType dtype) const {
    return is_float8(dtype) ? flops_f8 : dtype == DType::bf16 ? flops_bf16 : flops_f32;
  }
  /// tp and cp are the innermost axes and are kept within a node; all others may leave it.
  const Link& link(Axis axis) const { return axis == Axis::tp || axis == Axis::cp ? near : far; }
};

/// A CPU with measured (or assumed) speeds. It multiplies 8-bit floats as bf16. Its GEMMs need no workspace.
Machine cpu_machine(std::string isa, int threads, double flops_f32, double flops_bf16,
                    double memory_bytes_per_second, std::int64_t memory_bytes);

/// "a100", "h100", "h200": SXM cards with 80, 80 and 141 GB, speeds from the vendor's data sheets.
std::optional<Machine> known_machine(std::string_view name);

}  // namespace titan
