#include "app/trainer/session.h"

#include <algorithm>
#include <array>

#include "engine/metrics/memory.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

/// Addresses, not memory, that a process takes beside the arena: malloc maps up to 64 MiB for each thread, of
/// which four do not compute, and libraries that find none left crash instead of failing.
std::int64_t beside_the_arena(int threads) { return (threads + 4) * (std::int64_t{64} << 20); }

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

/// What to change, in the words of the command that runs the job.
std::string less_memory(const Job& job, bool gpu) {
  if (job.has("prefill")) return "lower --max-new-tokens or shorten the prompt, or use --dtype bfloat16";
  if (!job.has("train")) return "lower --batch or --seq-len, or use --dtype bfloat16";
  std::string text =
      "lower training.local_batch_size or training.seq_len, or use activation_checkpoint.mode = \"full\"";
  const SpaceReport& host = job.placement.space(Space::host);
  const std::int64_t staging = host.persistent_by_role[static_cast<std::size_t>(Role::staging)];
  if (staging > 0) text += ", or checkpoint.async_mode = \"disabled\"";
  if (gpu && host.arena_bytes <= staging)
    text += ", or training.enable_cpu_offload = true or activation_offload.enable = true";
  if (!gpu && host.arena_bytes > staging)
    text +=
        ", or training.enable_cpu_offload = false and activation_offload.enable = false: "
        "to a CPU host memory is the same memory";
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

/// ", parameter 1.20 GiB, ..." of what stays from step to step in these spaces.
std::string parts(std::initializer_list<const SpaceReport*> spaces) {
  std::string text;
  for (std::size_t role = 0; role < kRoles; ++role) {
    std::int64_t bytes = 0;
    for (const SpaceReport* space : spaces) bytes += space->persistent_by_role[role];
    if (bytes > 0) text += fmt::format(", {} {:.2f} GiB", to_string(static_cast<Role>(role)), gib(bytes));
  }
  return text;
}

void check_gpu_memory(const Job& job, const DeviceMemory& gpu, std::int64_t reserved) {
  const SpaceReport& device = job.placement.space(Space::device);
  if (device.arena_bytes + reserved <= gpu.free_bytes) return;
  throw UserError(fmt::format(
      "the run needs {:.2f} GiB on the GPU and {:.2f} GiB for libraries and graphs, and {:.2f} GiB are free "
      "of "
      "{:.2f} GiB ({:.2f} GiB change from step to step{}); {}",
      gib(device.arena_bytes), gib(reserved), gib(gpu.free_bytes), gib(gpu.total_bytes),
      gib(device.arena_bytes - device.persistent_bytes), parts({&device}), less_memory(job, true)));
}

}  // namespace

void check_memory(const Job& job, const DeviceRequest& request) {
  const MachineMemory memory = machine_memory();
  const int threads = compute_threads(request.threads);
  const SpaceReport &device = job.placement.space(Space::device), &host = job.placement.space(Space::host);
  const bool gpu = choose_device(request) == DeviceKind::cuda;
  if (gpu) check_gpu_memory(job, device_memory(request), machine_of(request).reserved_bytes);
  const std::int64_t needed = gpu ? host.arena_bytes : device.arena_bytes + host.arena_bytes;
  const std::int64_t addresses = needed + beside_the_arena(threads + more_lanes(job));
  if (memory.address_space && *memory.address_space < addresses)
    throw UserError(fmt::format(
        "the limit of this process's address space (`ulimit -v`) leaves {} MiB, a run needs {}: its "
        "memory, {} MiB, and room for {} threads and the libraries; raise the limit",
        std::max<std::int64_t>(0, *memory.address_space) >> 20, addresses >> 20, needed >> 20, threads));
  if (memory.total == 0 || needed <= memory.available) return;
  const std::int64_t persistent = host.persistent_bytes + (gpu ? 0 : device.persistent_bytes);
  throw UserError(fmt::format(
      "the run needs {:.2f} GiB of memory, the machine has {:.2f} GiB free ({:.2f} GiB change from step to "
      "step{}); {}",
      gib(needed), gib(memory.available), gib(needed - persistent),
      gpu ? parts({&host}) : parts({&device, &host}), less_memory(job, gpu)));
}

Session::Session(Job job, const DeviceRequest& request) : job_(std::move(job)) {
  check_memory(job_, request);
  backend_ = make_backend(request);
  executor_ = std::make_unique<Executor>(job_, *backend_);
}

std::int64_t Session::memory_bytes() const {
  const std::int64_t host =
      backend_->host_addressable(Space::device) ? executor_->arena_bytes(Space::host) : 0;
  return executor_->arena_bytes(Space::device) + host;
}

std::optional<std::int64_t> Session::beside_arena_bytes() const {
  const DeviceMemory memory = backend_->device_memory();
  if (memory.total_bytes == 0) return std::nullopt;
  return memory.total_bytes - memory.free_bytes - executor_->arena_bytes(Space::device);
}

void Session::initialize(std::uint64_t seed) {
  const int program = job_.index("initialize");
  const auto value = static_cast<std::int64_t>(seed);
  executor_->write(program, job_.program("initialize").at("seed"), &value);
  executor_->run(program);
}

void Session::refresh() { executor_->run(job_.index("refresh")); }

}  // namespace titan
