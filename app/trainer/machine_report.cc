#include "app/trainer/machine_report.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <cstdint>
#include <fstream>

#include "engine/metrics/memory.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/library/library.h"

namespace titan {
namespace {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string device_line(const cuda::CudaApi& api, const cuda::CudaDevice& device, int index) {
  const auto line = [&](const std::string& memory) {
    return fmt::format("device: {}, compute capability {}.{}, {} SMs, {:.1f} GiB, {}\n", device.name,
                       device.compute_capability / 10, device.compute_capability % 10, device.multiprocessors,
                       gib(device.memory_bytes), memory);
  };
  try {
    return line(fmt::format("{:.1f} GiB free", gib(api.memory(index).free_bytes)));
  } catch (const std::exception& error) {
    return line(fmt::format("not usable: {}", error.what()));
  }
}

std::string cuda_report() {
  const cuda::Library& library = cuda::load_library();
  if (!library) return fmt::format("cuda             {}\n", library.why_not);
  std::string text = fmt::format("cuda             {}\n", library.path);
  try {
    text += library.api->describe();
    const std::vector<cuda::CudaDevice> devices = library.api->devices();
    for (std::size_t i = 0; i < devices.size(); ++i)
      text += device_line(*library.api, devices[i], static_cast<int>(i)) +
              fmt::format("attention: {}\n", devices[i].attention);
  } catch (const std::exception& error) {
    text += fmt::format("not usable: {}\n", error.what());
  }
  return text;
}

}  // namespace

std::string machine_report() {
  const MachineMemory memory = machine_memory();
  std::string text = fmt::format("processor        {}\n", processor_name());
  text +=
      fmt::format("memory           {:.1f} GiB, {:.1f} GiB free\n", gib(memory.total), gib(memory.available));
  struct statvfs disk {};
  if (statvfs(".", &disk) == 0)
    text += fmt::format("disk here        {:.1f} GiB free\n",
                        gib(static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize)));
  text += fmt::format("backend          cpu\n{}", cpu::describe_cpu_backend({}));
  return text + cuda_report();
}

}  // namespace titan
