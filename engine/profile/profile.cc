#include "engine/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "engine/program/order.h"
#include "kernels/base/error.h"
#include "kernels/cost/cost.h"

namespace titan {

std::vector<CommandTime> predict(const Program& program, const Machine& machine) {
  std::vector<CommandTime> times;
  std::array<std::vector<double>, kLanes> ends;  // by lane, of the tickets so far
  for (const Occurrence& o : unroll(program)) {
    std::vector<double>& lane = ends[static_cast<std::size_t>(o.node->lane)];
    double begin = lane.empty() ? 0 : lane.back();
    for (const Wait& wait : o.waits)
      begin = std::max(begin,
                       ends[static_cast<std::size_t>(wait.lane)][static_cast<std::size_t>(wait.ticket - 1)]);
    times.push_back({begin, begin + cost(o.node->op, machine).seconds});
    lane.push_back(times.back().end);
  }
  return times;
}

double held_by(const Program& program, std::span<const CommandTime> times, Lane lane) {
  const std::vector<Occurrence> occurrences = unroll(program);
  TITAN_CHECK_EQ(occurrences.size(), times.size());
  double held = 0, free_since = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Occurrence& o = occurrences[i];
    if (o.node->lane != Lane::compute) continue;
    const bool waits = std::any_of(o.waits.begin(), o.waits.end(),
                                   [&](const Wait& wait) { return wait.lane == static_cast<int>(lane); });
    if (waits) held += times[i].begin - free_since;
    free_since = times[i].end;
  }
  return held;
}

ProgramTotals totals(const Program& program, const Machine& machine) {
  ProgramTotals t;
  for (const TimelineStep& step : program.timeline)
    for (const Node& node : program.segments[static_cast<std::size_t>(step.segment)].nodes) {
      const Cost c = cost(node.op, machine);
      ++t.nodes;
      t.flops += c.flops;
      t.seconds += c.seconds;
      if (const auto* gemm = std::get_if<Gemm>(&node.op))
        (gemm->a.dtype == DType::bf16 ? t.gemm_flops_bf16 : t.gemm_flops_f32) += c.flops;
    }
  return t;
}

double duration_of(std::span<const CommandTime> times) {
  double end = 0;
  for (const CommandTime& t : times) end = std::max(end, t.end);
  return end;
}

std::vector<OpShare> share_by_op(const Program& program, std::span<const CommandTime> times,
                                 const Machine& machine) {
  const std::vector<Occurrence> occurrences = unroll(program);
  TITAN_CHECK_EQ(occurrences.size(), times.size());
  std::map<std::string_view, OpShare> by_op;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Op& op = occurrences[i].node->op;
    const Cost c = cost(op, machine);
    OpShare& share = by_op[name_of(op)];
    ++share.count;
    share.seconds += times[i].end - times[i].begin;
    share.flops += static_cast<double>(c.flops);
    share.bytes += static_cast<double>(c.bytes_read + c.bytes_written);
    share.floor_seconds += c.seconds;
  }
  std::vector<OpShare> shares;
  for (auto& [name, share] : by_op) {
    share.op = name;
    shares.push_back(std::move(share));
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const OpShare& a, const OpShare& b) { return a.seconds > b.seconds; });
  return shares;
}

std::string share_table(std::span<const OpShare> shares, double step_seconds) {
  std::string text = fmt::format("{:<20} {:>7} {:>10} {:>6} {:>9} {:>8}\n", "operation", "share", "ms",
                                 "count", "GFLOP/s", "GB/s");
  double sum = 0;
  for (const OpShare& s : shares) {
    const double seconds = std::max(s.seconds, 1e-12);
    text += fmt::format("{:<20} {:>6.1f}% {:>10.2f} {:>6} {:>9.1f} {:>8.1f}\n", s.op,
                        100 * s.seconds / step_seconds, 1e3 * s.seconds, s.count, s.flops / seconds * 1e-9,
                        s.bytes / seconds * 1e-9);
    sum += s.seconds;
  }
  return text + fmt::format("{:<20} {:>6.1f}% {:>10.2f}\n", "all of the step", 100 * sum / step_seconds,
                            1e3 * step_seconds);
}

}  // namespace titan
