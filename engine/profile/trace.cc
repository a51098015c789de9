#include "engine/profile/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include "engine/program/dump.h"
#include "engine/program/lifetime.h"
#include "engine/program/order.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + "\"";
}

double microseconds(double seconds) { return seconds * 1e6; }

/// Bytes of transient values alive at each node of the program that lifetimes() looks at, by space.
std::array<std::vector<std::int64_t>, 2> live_bytes(const Lifetimes& lives) {
  std::array<std::vector<std::int64_t>, 2> live;
  for (auto& space : live) space.assign(static_cast<std::size_t>(lives.occurrences) + 1, 0);
  for (const LiveItem& item : lives.items) {
    auto& space = live[static_cast<std::size_t>(item.space)];
    for (const Episode& e : item.episodes) {
      // Inputs begin before the first node, outputs end after the last.
      space[static_cast<std::size_t>(std::max(0, e.begin))] += item.bytes;
      space[static_cast<std::size_t>(std::min(e.end, lives.occurrences - 1)) + 1] -= item.bytes;
    }
  }
  for (auto& space : live) {
    for (std::size_t i = 1; i < space.size(); ++i) space[i] += space[i - 1];
    space.pop_back();
  }
  return live;
}

/// Where each node is in the list that lifetimes() looks at: of many micro-batches in one slot it takes the
/// first, the second and the last, and the second stands for those between.
std::vector<std::size_t> positions_in_lifetimes(const Program& program,
                                                const std::vector<Occurrence>& occurrences) {
  std::vector<std::size_t> positions;
  std::size_t next = 0, second = 0, offset = 0;
  int current = -1;
  for (const Occurrence& o : occurrences) {
    const int micro_batch = program.timeline[static_cast<std::size_t>(o.step)].micro_batch;
    const bool left_out = program.slots == 1 && micro_batch > 1 && micro_batch < program.micro_batches - 1;
    if (micro_batch != current) {
      offset = 0;
      if (micro_batch == 1) second = next;
      current = micro_batch;
    }
    positions.push_back(left_out ? second + offset++ : next++);
  }
  return positions;
}

}  // namespace

std::string trace_json(const Program& program, std::span<const CommandTime> times,
                       const TraceOptions& options) {
  const std::vector<Occurrence> occurrences = unroll(program);
  TITAN_CHECK_EQ(occurrences.size(), times.size());
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  out += fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", options.rank,
                     json_string(options.title));
  std::array<bool, kLanes> used{};
  for (const Occurrence& o : occurrences) used[static_cast<std::size_t>(o.node->lane)] = true;
  for (int lane = 0; lane < kLanes; ++lane)
    if (used[static_cast<std::size_t>(lane)])
      out += fmt::format(
          ",\n"
          R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
          options.rank, lane, to_string(static_cast<Lane>(lane)));
  for (std::size_t i = 0; i < occurrences.size(); ++i) {
    const Node& node = *occurrences[i].node;
    const TimelineStep& step = program.timeline[static_cast<std::size_t>(occurrences[i].step)];
    out += fmt::format(
        ",\n"
        R"({{"ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"layer":{},)"
        R"("phase":"{}","segment":{},"micro_batch":{},"node":{}}}}})",
        name_of(node.op), to_string(node.tag.phase), options.rank, static_cast<int>(node.lane),
        microseconds(times[i].begin), microseconds(std::max(0.0, times[i].end - times[i].begin)),
        node.tag.layer, to_string(node.tag.phase),
        json_string(program.segments[static_cast<std::size_t>(step.segment)].name), step.micro_batch,
        json_string(dump_node(program, node)));
  }

  const auto live = live_bytes(lifetimes(program));
  const std::vector<std::size_t> position = positions_in_lifetimes(program, occurrences);
  for (std::size_t i = 0; i < occurrences.size(); ++i) {
    const std::int64_t device = live[0].at(position[i]), host = live[1].at(position[i]);
    out += fmt::format(
        ",\n"
        R"({{"ph":"C","name":"memory","pid":{},"ts":{:.3f},"args":{{"persistent":{},"transient":{}}}}})",
        options.rank, microseconds(times[i].begin), options.persistent_bytes, device);
    if (host > 0)
      out += fmt::format(
          ",\n"
          R"({{"ph":"C","name":"host memory","pid":{},"ts":{:.3f},"args":{{"transient":{}}}}})",
          options.rank, microseconds(times[i].begin), host);
  }
  return out + "\n]}\n";
}

void write_trace(const std::filesystem::path& path, const Program& program,
                 std::span<const CommandTime> times, const TraceOptions& options) {
  std::error_code ignored;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  std::ofstream file(path);
  file << trace_json(program, times, options);
  if (!file.flush())
    throw UserError(
        fmt::format("cannot write the trace {}: the folder is read-only or the disk is full", path.string()));
}

}  // namespace titan
