#include "app/trainer/device.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "engine/metrics/memory.h"
#include "engine/recipe/recipe.h"
#include "kernels/base/error.h"
#include "kernels/cpu/base/processors.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/library/library.h"

namespace titan {
namespace {

/// Rounded speeds of one core, by instruction set: only their ratios steer a plan, and a constant is the same
/// on every rank.
struct CoreSpeed {
  double flops_f32, flops_bf16, bytes_per_second;
};

CoreSpeed core_speed(cpu::Isa isa) {
  constexpr double kBandwidth = 14e9;
  switch (isa) {
    case cpu::Isa::baseline:
      return {2e10, 2e10, kBandwidth};
    case cpu::Isa::avx2:
      return {8e10, 8e10, kBandwidth};
    case cpu::Isa::avx512:
      return {1.6e11, 1.6e11, kBandwidth};
    case cpu::Isa::avx512_bf16:
      return {1.6e11, 3e11, kBandwidth};
    case cpu::Isa::amx:
      return {1.6e11, 1e12, kBandwidth};
  }
  return {2e10, 2e10, kBandwidth};
}

Machine this_cpu(int asked_threads) {
  const cpu::Isa isa = cpu::best_isa();
  const int threads = compute_threads(asked_threads);
  const CoreSpeed core = core_speed(isa);
  return cpu_machine(cpu::to_string(isa), threads, core.flops_f32 * threads, core.flops_bf16 * threads,
                     core.bytes_per_second * threads, machine_memory().total);
}

/// "NVIDIA H100 80GB HBM3" is an "h100". A card that the table lacks is planned as the slowest it has.
Machine this_gpu(const cuda::CudaDevice& device) {
  std::string name = device.name;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::optional<Machine> machine;
  for (const char* known : {"h200", "h100", "a100"})
    if (!machine && name.find(known) != std::string::npos) machine = known_machine(known);
  if (!machine) {
    machine = known_machine("a100");
    machine->isa = fmt::format("sm_{}", device.compute_capability);
  }
  machine->name = device.name;
  machine->memory_bytes = device.memory_bytes;
  return *machine;
}

bool set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' && std::string_view(value) != "0";
}

/// 0 unless it is set to a positive number.
int number(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr ? std::max(0, std::atoi(value)) : 0;
}

/// The first device, and why there is none.
const cuda::CudaDevice* first_gpu(std::string& why_not) {
  const cuda::Library& library = cuda::load_library();
  if (!library) {
    why_not = library.why_not;
    return nullptr;
  }
  static std::vector<cuda::CudaDevice> devices;
  try {
    if (devices.empty()) devices = library.api->devices();
  } catch (const std::exception& error) {
    why_not = error.what();
    return nullptr;
  }
  return &devices.front();
}

}  // namespace

int compute_threads(std::int64_t asked) {
  return asked > 0 ? static_cast<int>(asked) : static_cast<int>(cpu::allowed_processors().size());
}

DeviceRequest device_request(const Recipe& recipe) {
  DeviceRequest request{.device = recipe.debug.device, .threads = static_cast<int>(recipe.debug.threads)};
  if (recipe.cuda.measure_gemms)
    request.gemm_table = (std::filesystem::path(recipe.job.dump_folder) / "gemm_table.txt").string();
  return request;
}

DeviceKind choose_device(const DeviceRequest& request) {
  if (request.device == "cpu") return DeviceKind::cpu;
  std::string why_not;
  if (first_gpu(why_not) != nullptr) return DeviceKind::cuda;
  if (request.device == "cuda")
    throw UserError(
        fmt::format("no GPU can be used: {}; `titan doctor` says more, and debug.device = \"cpu\" "
                    "(--device cpu) runs on the processor",
                    why_not));
  return DeviceKind::cpu;
}

Machine machine_of(const DeviceRequest& request) {
  if (choose_device(request) == DeviceKind::cpu) return this_cpu(request.threads);
  std::string why_not;
  return this_gpu(*first_gpu(why_not));
}

std::unique_ptr<Backend> make_backend(const DeviceRequest& request) {
  cpu::CpuOptions options;
  options.threads = request.threads;
  std::unique_ptr<Backend> cpu = cpu::make_cpu_backend(options);
  if (choose_device(request) == DeviceKind::cpu) return cpu;
  return cuda::load_library().api->make_backend({.host = std::move(cpu),
                                                 .gemm_table = request.gemm_table,
                                                 .gemm_multiprocessors = number("TITAN_CUDA_GEMM_SMS"),
                                                 .graphs = !set("TITAN_CUDA_NO_GRAPHS"),
                                                 .synchronous = set("TITAN_CUDA_SYNCHRONOUS")});
}

DeviceMemory device_memory(const DeviceRequest& request) {
  if (choose_device(request) == DeviceKind::cpu) return {};
  return cuda::load_library().api->memory(0);
}

}  // namespace titan
