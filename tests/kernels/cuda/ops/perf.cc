// --perf: the time of every bench case beside the bytes and FLOPs that it cannot do without.
#include "kernels/base/error.h"
#include "kernels/cost/cost.h"
#include "tests/kernels/ops/op_table.h"

namespace titan::op_test {
namespace {

void time_case(const Case& c, Runner& runner) {
  Memory memory(c, runner);
  memory.reset(c, false);
  const double seconds = best_time([&] { memory.run_only(c, 0, true); });
  const Cost floor = cost(c.op, *known_machine("h200"));
  const double bytes = static_cast<double>(floor.bytes_read + floor.bytes_written);
  const double flops = static_cast<double>(floor.flops);
  fmt::print("{:9.3f} {:9.1f} {:10.1f} {:8.1f} {:9.1f}  {}\n", seconds * 1e3, bytes / 1e6, flops / 1e6,
             bytes / seconds / 1e9, flops / seconds / 1e9, describe(c.op));
  std::fflush(stdout);
}

}  // namespace

void run_perf(std::string_view filter) {
  Runner& runner = *runners().front();
  fmt::print("{}\n{:>9} {:>9} {:>10} {:>8} {:>9}\n", runner.name(), "ms", "MB", "MFLOP", "GB/s", "GFLOP/s");
  for (const Row& row : table())
    if (row.bench && row.name.find(filter) != std::string::npos)
      row.bench([&](const Case& c) {
        if (runner.runs(c.op)) time_case(c, runner);
      });
}

}  // namespace titan::op_test
