#include "app/trainer/session.h"

#include <algorithm>
#include <array>

#include "engine/metrics/memory.h"
#include "engine/recipe/recipe.h"
#include "kernels/base/error.h"
#include "kernels/cost/machine.h"
#include "kernels/cpu/base/processors.h"
#include "kernels/cpu/cpu_backend.h"

namespace titan {
namespace {

/// Addresses, not memory, that a process takes beside the arena: malloc maps up to 64 MiB for each thread, of
/// which four do not compute, and libraries that find none left crash instead of failing.
std::int64_t beside_the_arena(int threads) { return (threads + 4) * (std::int64_t{64} << 20); }

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

/// What to change, in the words of the command that runs the job.
std::string less_memory(const Job& job) {
  if (job.has("prefill")) return "lower --max-new-tokens or shorten the prompt, or use --dtype bfloat16";
  if (!job.has("train")) return "lower --batch or --seq-len, or use --dtype bfloat16";
  std::string text =
      "lower training.local_batch_size or training.seq_len, or use activation_checkpoint.mode = \"full\"";
  const SpaceReport& host = job.placement.space(Space::host);
  const std::int64_t staging = host.persistent_by_role[static_cast<std::size_t>(Role::staging)];
  if (staging > 0) text += ", or checkpoint.async_mode = \"disabled\"";
  if (host.arena_bytes > staging)
    text +=
        ", or training.enable_cpu_offload = false and activation_offload.enable = false: to a CPU host "
        "memory "
        "is the same memory";
  return text;
}

/// Lanes that move data or wait for it beside the compute lane; the first of them is always counted.
int more_lanes(const Job& job) {
  std::array<bool, kLanes> used{};
  for (const Program& program : job.programs)
    for (const Segment& segment : program.segments)
      for (const Node& node : segment.nodes) used[static_cast<std::size_t>(node.lane)] = true;
  used[static_cast<std::size_t>(Lane::compute)] = used[static_cast<std::size_t>(Lane::host)] = false;
  return std::max(0, static_cast<int>(std::count(used.begin(), used.end(), true)) - 1);
}

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

}  // namespace

int compute_threads(std::int64_t asked) {
  return asked > 0 ? static_cast<int>(asked) : static_cast<int>(cpu::allowed_processors().size());
}

Machine local_machine(const Recipe& recipe) {
  const cpu::Isa isa = cpu::best_isa();
  const int threads = compute_threads(recipe.debug.threads);
  const CoreSpeed core = core_speed(isa);
  return cpu_machine(cpu::to_string(isa), threads, core.flops_f32 * threads, core.flops_bf16 * threads,
                     core.bytes_per_second * threads, machine_memory().total);
}

void check_memory(const Job& job, const MachineMemory& memory, int threads) {
  const SpaceReport &device = job.placement.space(Space::device), &host = job.placement.space(Space::host);
  const std::int64_t needed = device.arena_bytes + host.arena_bytes;
  const std::int64_t addresses = needed + beside_the_arena(threads + more_lanes(job));
  if (memory.address_space && *memory.address_space < addresses)
    throw UserError(fmt::format(
        "the limit of this process's address space (`ulimit -v`) leaves {} MiB, a run needs {}: its "
        "memory, {} MiB, and room for {} threads and the libraries; raise the limit",
        std::max<std::int64_t>(0, *memory.address_space) >> 20, addresses >> 20, needed >> 20, threads));
  if (memory.total == 0 || needed <= memory.available) return;
  std::string parts;
  for (std::size_t role = 0; role < kRoles; ++role)
    if (const std::int64_t bytes = device.persistent_by_role[role] + host.persistent_by_role[role]; bytes > 0)
      parts += fmt::format(", {} {:.2f} GiB", to_string(static_cast<Role>(role)), gib(bytes));
  throw UserError(fmt::format(
      "the run needs {:.2f} GiB of memory, the machine has {:.2f} GiB free ({:.2f} GiB change from step to "
      "step{}); {}",
      gib(needed), gib(memory.available), gib(needed - device.persistent_bytes - host.persistent_bytes),
      parts, less_memory(job)));
}

Session::Session(Job job, int threads) : job_(std::move(job)) {
  check_memory(job_, machine_memory(), compute_threads(threads));
  cpu::CpuOptions options;
  options.threads = threads;
  backend_ = cpu::make_cpu_backend(options);
  executor_ = std::make_unique<Executor>(job_, *backend_);
}

std::int64_t Session::memory_bytes() const {
  return executor_->arena_bytes(Space::device) + executor_->arena_bytes(Space::host);
}

void Session::initialize(std::uint64_t seed) {
  const int program = job_.index("initialize");
  const auto value = static_cast<std::int64_t>(seed);
  executor_->write(program, job_.program("initialize").at("seed"), &value);
  executor_->run(program);
}

void Session::refresh() { executor_->run(job_.index("refresh")); }

}  // namespace titan
