#include "engine/program/verify.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "engine/program/dump.h"
#include "kernels/base/error.h"
#include "kernels/op/float8_rules.h"

namespace titan {
namespace {

/// What one life of one instance of a base holds.
struct Contents {
  std::vector<ByteRect> written;
  std::vector<ByteRect> accumulated;
};

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {}

  void run() {
    for (ValueId id = 0; id < static_cast<ValueId>(program_.values.size()); ++id) check_value(id);
    check_nodes();
    for (const TimelineStep& step : program_.timeline)
      for (const Node& node : program_.segments[static_cast<std::size_t>(step.segment)].nodes)
        run_node(node, step);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InternalError(fmt::format("program {} is malformed: {}", program_.name, what));
  }
  [[noreturn]] void fail(const Node& node, const std::string& what) const {
    fail(fmt::format("{}\n  {}", what, dump_node(program_, node)));
  }

  void check_value(ValueId id) const {
    const Value& v = program_.value(id);
    if (v.rows < 0 || v.cols < 0 || v.pitch < v.cols)
      fail(fmt::format("value {} is [{}, {}] pitch {}", v.name, v.rows, v.cols, v.pitch));
    if (!v.is_view()) {
      if (v.pitch != v.cols || v.offset != 0) fail(fmt::format("base {} is not contiguous", v.name));
      return;
    }
    const Value& base = program_.value(v.base);
    if (base.is_view()) fail(fmt::format("{} is a view of the view {}", v.name, base.name));
    if (base.lifetime != v.lifetime || base.role != v.role || base.space != v.space)
      fail(fmt::format("{} differs from its base {} in role, lifetime or space", v.name, base.name));
    const std::int64_t size = size_of(v.dtype);
    const std::int64_t end = v.rows == 0 ? v.offset : v.offset + ((v.rows - 1) * v.pitch + v.cols) * size;
    if (v.offset < 0 || end > base.bytes())
      fail(fmt::format("view {} covers bytes [{}, {}) of {}, which has {}", v.name, v.offset, end, base.name,
                       base.bytes()));
  }

  void check_nodes() const {
    for (const Segment& segment : program_.segments) {
      std::unordered_set<NodeId> seen;
      for (const Node& node : segment.nodes) {
        for (const NodeId earlier : node.after)
          if (!seen.contains(earlier))
            fail(node,
                 fmt::format("after node {}, which does not come earlier in {}", earlier, segment.name));
        if (!seen.insert(node.id).second) fail(node, fmt::format("node id {} occurs twice", node.id));
        if (const std::string problem = float8_problem(node.op); !problem.empty()) fail(node, problem);
        check_spaces(node);
        for_each_operand(node.op, [&](const Operand& operand, Access, std::string_view name) {
          if (operand.value < 0 || operand.value >= static_cast<ValueId>(program_.values.size()))
            fail(node, fmt::format("operand {} names no value", name));
          const Value& v = program_.value(operand.value);
          if (operand.dtype != v.dtype || operand.rows != v.rows || operand.cols != v.cols ||
              operand.pitch != v.pitch)
            fail(node, fmt::format("operand {} differs from its value {}", name, v.name));
        });
      }
    }
  }

  /// The host lane computes over host memory; between the spaces there are only copies, on other lanes.
  void check_spaces(const Node& node) const {
    int on_device = 0, on_host = 0;
    for_each_operand(node.op, [&](const Operand& operand, Access, std::string_view) {
      if (operand.value < 0 || operand.value >= static_cast<ValueId>(program_.values.size())) return;
      ++(program_.value(operand.value).space == Space::device ? on_device : on_host);
    });
    if (node.lane == Lane::host && on_device > 0) fail(node, "the host lane uses device memory");
    if (node.lane == Lane::host || on_host == 0) return;
    if (!std::holds_alternative<Copy>(node.op) || on_device == 0)
      fail(node, fmt::format("lane {} uses host memory, which only its copies may", to_string(node.lane)));
  }

  void run_node(const Node& node, const TimelineStep& step) {
    // Reads see what earlier nodes wrote, so all reads come first.
    for_each_operand(node.op, [&](const Operand& operand, Access access, std::string_view name) {
      if (access == Access::in || access == Access::state) require_written(node, step, operand, name);
    });
    for_each_operand(node.op, [&](const Operand& operand, Access access, std::string_view name) {
      if (access == Access::out) write(node, step, operand, name);
      if (access == Access::accumulate) accumulate(node, step, operand, name);
    });
  }

  void require_written(const Node& node, const TimelineStep& step, const Operand& operand,
                       std::string_view name) {
    const Value& v = program_.value(operand.value);
    if (v.lifetime == Lifetime::persistent || v.role == Role::input || v.bytes() == 0) return;
    if (v.role == Role::weight && program_.buckets.empty()) return;
    const ByteRect wanted = rect_of(v);
    std::int64_t covered = 0;
    for (const ByteRect& rect : contents(operand.value, step).written) covered += overlap_bytes(rect, wanted);
    if (covered < wanted.bytes())
      fail(node, fmt::format("operand {} reads {}, of which {} of {} bytes are written", name, v.name,
                             covered, wanted.bytes()));
  }

  void write(const Node& node, const TimelineStep& step, const Operand& operand, std::string_view name) {
    const Value& v = program_.value(operand.value);
    if (v.role == Role::input) fail(node, fmt::format("operand {} writes the input {}", name, v.name));
    const ByteRect rect = rect_of(v);
    Contents& past = contents(operand.value, step);
    for (const ByteRect& earlier : past.written)
      if (overlap_bytes(earlier, rect) > 0)
        fail(node, fmt::format("operand {} writes bytes of {} a second time", name, v.name));
    past.written.push_back(rect);
  }

  void accumulate(const Node& node, const TimelineStep& step, const Operand& operand, std::string_view name) {
    const Value& v = program_.value(operand.value);
    const ByteRect rect = rect_of(v);
    Contents& past = contents(operand.value, step);
    for (const ByteRect& earlier : past.accumulated) {
      const std::int64_t common = overlap_bytes(earlier, rect);
      if (common == rect.bytes() && common == earlier.bytes()) return;  // adds to what is there
      if (common > 0)
        fail(node,
             fmt::format("operand {} adds to a part of what another node accumulates in {}", name, v.name));
    }
    write(node, step, operand, name);
    past.accumulated.push_back(rect);
  }

  Contents& contents(ValueId id, const TimelineStep& step) {
    const ValueId base = program_.base_of(id);
    const Value& v = program_.value(base);
    const int life = v.lifetime == Lifetime::slot ? step.micro_batch : 0;
    return contents_[{base, instance_of(v, step), life}];
  }

  const Program& program_;
  std::map<std::tuple<ValueId, int, int>, Contents> contents_;
};

}  // namespace

void verify(const Program& program) { Verifier(program).run(); }

}  // namespace titan
