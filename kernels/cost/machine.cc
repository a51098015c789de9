#include "kernels/cost/machine.h"

namespace titan {
namespace {

Machine cuda_machine(std::string name, std::string isa, double flops_f8, double flops_bf16, double flops_f32,
                     double memory_bytes_per_second, std::int64_t memory_mib, double nvlink, double network,
                     double pcie, double host_memory) {
  Machine m;
  m.name = std::move(name);
  m.kind = DeviceKind::cuda;
  m.isa = std::move(isa);
  m.flops_f8 = flops_f8;
  m.flops_bf16 = flops_bf16;
  m.flops_f32 = m.vector_flops = flops_f32;
  m.memory_bytes_per_second = memory_bytes_per_second;
  m.launch_seconds = 3e-6;
  m.memory_bytes = memory_mib << 20;
  m.reserved_bytes = std::int64_t{512} << 20;
  m.near = {nvlink, 3e-6};
  m.far = {network, 10e-6};
  m.host = {pcie, 10e-6};
  m.host_bytes_per_second = host_memory;
  m.gemm_workspace_bytes = std::int64_t{32} << 20;  // what cuBLASLt recommends for Hopper
  return m;
}

}  // namespace

Machine cpu_machine(std::string isa, int threads, double flops_f32, double flops_bf16,
                    double memory_bytes_per_second, std::int64_t memory_bytes) {
  Machine m;
  m.name = "cpu";
  m.isa = std::move(isa);
  m.threads = threads;
  m.flops_f32 = m.vector_flops = flops_f32;
  m.flops_f8 = m.flops_bf16 = flops_bf16;
  m.memory_bytes_per_second = memory_bytes_per_second;
  m.launch_seconds = threads > 1 ? 5e-6 : 1e-6;
  m.memory_bytes = memory_bytes;
  m.near = {memory_bytes_per_second / 2, 5e-6};
  m.far = {1.25e9, 50e-6};  // 10 Gbit/s Ethernet
  return m;
}

std::optional<Machine> known_machine(std::string_view name) {
  // A100 multiplies 8-bit floats as bf16. NVLink: half of the data sheet's two-way figure. Network: one
  // InfiniBand port a GPU, HDR and NDR. PCIe 4 and 5 x16 as copies reach it, and an eighth of two sockets'
  // eight channels of memory.
  if (name == "a100")
    return cuda_machine("a100", "sm_80", 312e12, 312e12, 19.5e12, 2.039e12, 81920, 300e9, 25e9, 25e9, 50e9);
  if (name == "h100")
    return cuda_machine("h100", "sm_90a", 1979e12, 989e12, 67e12, 3.35e12, 81559, 450e9, 50e9, 50e9, 75e9);
  if (name == "h200")
    return cuda_machine("h200", "sm_90a", 1979e12, 989e12, 67e12, 4.8e12, 143771, 450e9, 50e9, 50e9, 75e9);
  return std::nullopt;
}

}  // namespace titan
