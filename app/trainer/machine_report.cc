#include "app/trainer/machine_report.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <cstdint>
#include <fstream>

#include "engine/metrics/memory.h"
#include "kernels/cpu/cpu_backend.h"

namespace titan {
namespace {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

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
  return text + "cuda             not built: this version of titan computes on the CPU\n";
}

}  // namespace titan
