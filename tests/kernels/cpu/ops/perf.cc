// --perf: the time of every bench case beside its floor on this machine.
#include <algorithm>
#include <cstring>
#include <thread>

#include "kernels/base/error.h"
#include "kernels/cost/cost.h"
#include "kernels/cpu/base/team.h"
#include "tests/kernels/cpu/ops/cpu_runner.h"
#include "tests/kernels/cpu/ops/peak.h"
#include "tests/kernels/ops/op_table.h"

namespace titan::op_test {
namespace {

const PeakKernels& peak_kernels(cpu::Isa isa) {
  return cpu::choose(isa, cpu::baseline::kPeak, cpu::avx2::kPeak, cpu::avx512::kPeak);
}

double measure_flops(const cpu::Team& team, cpu::Isa isa) {
  constexpr std::int64_t kRounds = 1 << 20;
  const PeakKernels& kernels = peak_kernels(isa);
  std::vector<float> sink(static_cast<std::size_t>(team.threads()) * 64);
  const double seconds = best_time([&] {
    team.parallel_for(team.threads(), 1, [&](std::int64_t begin, std::int64_t) {
      sink[static_cast<std::size_t>(begin) * 64] += kernels.multiply_add(kRounds, 0.5f);
    });
  });
  return static_cast<double>(kernels.flops_per_round) * kRounds * team.threads() / seconds;
}

/// As STREAM's copy: bytes read and written.
double measure_bandwidth(const cpu::Team& team) {
  constexpr std::int64_t kBytes = std::int64_t{128} << 20;
  std::vector<std::byte> from(kBytes), to(kBytes);
  const double seconds = best_time([&] {
    team.parallel_for(kBytes, 1 << 20, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
    });
  });
  return 2.0 * kBytes / seconds;
}

void time_case(const Case& c, const Machine& machine, Runner& runner) {
  Memory memory(c, runner);
  memory.reset(c, false);
  const double seconds = best_time([&] { memory.run_only(c, 0, true); });
  const Cost floor = cost(c.op, machine);
  const double bytes = static_cast<double>(floor.bytes_read + floor.bytes_written);
  const double flops = static_cast<double>(floor.flops);
  fmt::print("{:9.3f} {:9.1f} {:10.1f} {:8.2f} {:9.2f} {:9.3f} {:6.2f}  {}\n", seconds * 1e3, bytes / 1e6,
             flops / 1e6, bytes / seconds / 1e9, flops / seconds / 1e9, floor.seconds * 1e3,
             floor.seconds / seconds, describe(c.op));
  std::fflush(stdout);
}

}  // namespace

void run_perf(std::string_view filter) {
  const cpu::Isa isa = cpu::best_isa();
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const cpu::Team team(threads);
  const double flops = measure_flops(team, isa), bandwidth = measure_bandwidth(team);
  Machine machine = cpu_machine(cpu::to_string(isa), threads, flops, flops, bandwidth, 0);
  machine.launch_seconds = 0;
  fmt::print("{} threads, {}: {:.1f} GFLOP/s f32 multiply-add, {:.1f} GB/s copy\n", threads, machine.isa,
             flops / 1e9, bandwidth / 1e9);
  fmt::print("{:>9} {:>9} {:>10} {:>8} {:>9} {:>9} {:>6}\n", "ms", "MB", "MFLOP", "GB/s", "GFLOP/s",
             "floor ms", "share");
  const std::unique_ptr<Runner> runner = make_cpu_runner(isa, {threads});
  for (const Row& row : table())
    if (row.bench && row.name.find(filter) != std::string::npos)
      row.bench([&](const Case& c) { time_case(c, machine, *runner); });
}

}  // namespace titan::op_test
