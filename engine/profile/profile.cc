#include "engine/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "engine/program/order.h"
#include "kernels/base/error.h"
#include "kernels/cost/cost.h"

namespace titan {
namespace {

/// A node's cost where it runs: what crosses to host memory does so at the link's speed, and the host lane
/// has the host's memory.
Cost cost_of(const Program& program, const Node& node, const Machine& machine) {
  Cost c = cost(node.op, machine);
  if (machine.host.bytes_per_second == 0) return c;
  if (node.lane == Lane::host) {
    c.seconds = static_cast<double>(c.bytes_read + c.bytes_written) / machine.host_bytes_per_second;
  } else if (const auto* copy = std::get_if<Copy>(&node.op);
             copy != nullptr && program.value(copy->x.value).space != program.value(copy->y.value).space) {
    c.seconds =
        machine.host.latency_seconds + static_cast<double>(copy->x.bytes()) / machine.host.bytes_per_second;
  }
  return c;
}

}  // namespace

std::vector<CommandTime> predict(const Program& program, const Machine& machine) {
  std::vector<CommandTime> times;
  std::array<std::vector<double>, kLanes> ends;  // by lane, of the tickets so far
  for (const Occurrence& o : unroll(program)) {
    std::vector<double>& lane = ends[static_cast<std::size_t>(o.node->lane)];
    double begin = lane.empty() ? 0 : lane.back();
    for (const Wait& wait : o.waits)
      begin = std::max(begin,
                       ends[static_cast<std::size_t>(wait.lane)][static_cast<std::size_t>(wait.ticket - 1)]);
    times.push_back({begin, begin + cost_of(program, *o.node, machine).seconds});
    lane.push_back(times.back().end);
  }
  return times;
}

double held_by(const Program& program, std::span<const CommandTime> times, Phase phase) {
  const std::vector<Occurrence> occurrences = unroll(program);
  TITAN_CHECK_EQ(occurrences.size(), times.size());
  struct LaneTimes {
    std::vector<std::size_t> by_ticket;
    double free = 0;  ///< end of its last node of another phase
    double busy = 0;  ///< end of those of `phase` since then
  };
  std::array<LaneTimes, kLanes> lanes;
  double held = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Occurrence& o = occurrences[i];
    LaneTimes& lane = lanes[static_cast<std::size_t>(o.node->lane)];
    lane.by_ticket.push_back(i);
    if (o.node->tag.phase == phase) {
      lane.busy = times[i].end;
      continue;
    }
    double ready = lane.free, blocked = lane.busy;
    for (const Wait& wait : o.waits) {
      const std::size_t other =
          lanes[static_cast<std::size_t>(wait.lane)].by_ticket[static_cast<std::size_t>(wait.ticket - 1)];
      double& end = occurrences[other].node->tag.phase == phase ? blocked : ready;
      end = std::max(end, times[other].end);
    }
    held += std::max(0.0, blocked - ready);
    lane.free = times[i].end;
    lane.busy = 0;
  }
  return held;
}

ProgramTotals totals(const Program& program, const Machine& machine) {
  ProgramTotals t;
  std::array<double, kLanes> seconds{};
  for (const TimelineStep& step : program.timeline)
    for (const Node& node : program.segments[static_cast<std::size_t>(step.segment)].nodes) {
      const Cost c = cost_of(program, node, machine);
      ++t.nodes;
      t.flops += c.flops;
      seconds[static_cast<std::size_t>(node.lane)] += c.seconds;
      if (const auto* gemm = std::get_if<Gemm>(&node.op))
        (is_float8(gemm->a.dtype)       ? t.gemm_flops_f8
         : gemm->a.dtype == DType::bf16 ? t.gemm_flops_bf16
                                        : t.gemm_flops_f32) += c.flops;
    }
  t.seconds = *std::max_element(seconds.begin(), seconds.end());
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
    const Node& node = *occurrences[i].node;
    const Cost c = cost_of(program, node, machine);
    OpShare& share = by_op[name_of(node.op)];
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
