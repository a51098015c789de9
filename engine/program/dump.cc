#include "engine/program/dump.h"

#include <fmt/format.h>

#include "engine/program/order.h"
#include "engine/program/place.h"

namespace titan {
namespace {

std::string shape(const Value& v) { return fmt::format("[{},{}]{}", v.rows, v.cols, to_string(v.dtype)); }

std::string where(const Tag& tag) {
  return tag.layer < 0 ? fmt::format("    {:<11}", to_string(tag.phase))
                       : fmt::format("L{:<3}{:<11}", tag.layer, to_string(tag.phase));
}

constexpr std::string_view mark(Access access) {
  switch (access) {
    case Access::accumulate:
      return "+=";
    case Access::state:
      return "~=";
    case Access::scratch:
      return "?=";
    case Access::in:
    case Access::out:
      return "=";
  }
  return "=";
}

std::string operand_text(const Program& program, const Operand& operand, Access access,
                         std::string_view name) {
  const Value& v = program.value(operand.value);
  return fmt::format(" {}{}{}{}", name, mark(access), v.name, shape(v));
}

std::string timeline_text(const Program& program) {
  std::string text;
  for (const TimelineStep& step : program.timeline) {
    text += fmt::format(" {}", program.segments[static_cast<std::size_t>(step.segment)].name);
    if (program.micro_batches > 1 || program.slots > 1) text += fmt::format("({}", step.micro_batch);
    if (program.slots > 1) text += fmt::format("@{}", step.slot);
    if (program.micro_batches > 1 || program.slots > 1) text += ")";
  }
  return text;
}

void add_values(const Program& program, const DumpOptions& options, std::string& text) {
  text += "values\n";
  for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
    const Value& v = program.value(id);
    if (v.is_view()) continue;
    text += fmt::format("  {:<15} {:<11} {:>14} B  ", to_string(v.role), to_string(v.lifetime), v.bytes());
    if (options.placement != nullptr && options.placement->has(options.program_index, id))
      text += fmt::format("at {:>14}  ", options.placement->offset(options.program_index, id, 0));
    text += fmt::format("{}{}{}\n", v.name, shape(v), v.space == Space::host ? " on the host" : "");
  }
}

void add_unrolled(const Program& program, std::string& text) {
  text += "unrolled\n";
  for (const Occurrence& o : unroll(program)) {
    const TimelineStep& step = program.timeline[static_cast<std::size_t>(o.step)];
    text += fmt::format("{:>6} m{} s{} {}", fmt::format("{}.{}", static_cast<int>(o.node->lane), o.ticket),
                        step.micro_batch, step.slot, dump_node(program, *o.node));
    for (const Wait& wait : o.waits) text += fmt::format(" wait({}.{})", wait.lane, wait.ticket);
    if (o.overwrite != 0) text += fmt::format(" first={:b}", o.overwrite);
    text += "\n";
  }
}

}  // namespace

std::string dump_node(const Program& program, const Node& node) {
  std::string written, read;
  for_each_operand(node.op, [&](const Operand& operand, Access access, std::string_view name) {
    (access == Access::in ? read : written) += operand_text(program, operand, access, name);
  });
  std::string text =
      fmt::format("{:<11} {} {:<18}{}", to_string(node.lane), where(node.tag), name_of(node.op), written);
  if (!read.empty()) text += " <-" + read;
  const std::string plain = attributes(node.op);
  if (!plain.empty()) text += " | " + plain;
  return text;
}

std::string dump(const Program& program, const DumpOptions& options) {
  std::size_t nodes = 0;
  for (const Segment& segment : program.segments) nodes += segment.nodes.size();
  std::string text =
      fmt::format("program {}: {} values, {} nodes, {} micro-batches, {} slots\ntimeline{}\n", program.name,
                  program.values.size(), nodes, program.micro_batches, program.slots, timeline_text(program));
  if (options.values) add_values(program, options, text);
  if (options.unroll) {
    add_unrolled(program, text);
    return text;
  }
  for (const Segment& segment : program.segments) {
    text += fmt::format("segment {}: {} nodes\n", segment.name, segment.nodes.size());
    for (const Node& node : segment.nodes) {
      text += fmt::format("{:>6} {}", node.id, dump_node(program, node));
      if (!node.after.empty()) text += fmt::format(" after {}", fmt::join(node.after, ","));
      text += "\n";
    }
  }
  return text;
}

}  // namespace titan
