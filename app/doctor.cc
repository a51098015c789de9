#include <sys/statvfs.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include "app/command.h"
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

class DoctorCommand final : public Subcommand {
 public:
  CLI::App* add_to(CLI::App& app) override {
    return app.add_subcommand("doctor", "What this machine has, and what titan will use of it");
  }

  Exit run() override {
    const MachineMemory memory = machine_memory();
    fmt::print("processor        {}\n", processor_name());
    fmt::print("memory           {:.1f} GiB, {:.1f} GiB free\n", gib(memory.total), gib(memory.available));
    struct statvfs disk {};
    if (statvfs(".", &disk) == 0)
      fmt::print("disk here        {:.1f} GiB free\n",
                 gib(static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize)));
    fmt::print("backend          cpu\n{}", cpu::describe_cpu_backend({}));
    fmt::print("cuda             not built: this version of titan computes on the CPU\n");
    return Exit::ok;
  }

 private:
  static double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }
};

}  // namespace

std::unique_ptr<Subcommand> make_doctor_command() { return std::make_unique<DoctorCommand>(); }

}  // namespace titan
