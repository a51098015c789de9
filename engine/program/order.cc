#include "engine/program/order.h"

#include <algorithm>
#include <unordered_map>

#include "kernels/base/error.h"

namespace titan {
namespace {

struct Touch {
  ByteRect rect;
  LaneClock done;  ///< clock of having finished the touching node
  Lane lane;
  std::int32_t ticket;
  bool write;
};

/// What has touched one instance of a base so far.
struct History {
  std::vector<Touch> touches;
  std::vector<ByteRect> accumulated;  ///< rectangles that accumulating operands have written in this life
  int life = -1;                      ///< micro-batch of a slot's current user
};

class Unroller {
 public:
  Unroller(const Program& program, const std::vector<TimelineStep>& timeline)
      : program_(program), timeline_(timeline) {
    first_instance_.reserve(program.values.size() + 1);
    std::size_t instances = 0;
    for (const Value& v : program.values) {
      first_instance_.push_back(instances);
      if (!v.is_view()) instances += static_cast<std::size_t>(instance_count(v, program));
    }
    histories_.resize(instances);
  }

  std::vector<Occurrence> run() {
    std::size_t count = 0;
    for (const TimelineStep& step : timeline_)
      count += program_.segments[static_cast<std::size_t>(step.segment)].nodes.size();
    result_.reserve(count);
    for (std::size_t i = 0; i < timeline_.size(); ++i) {
      in_step_.clear();
      for (const Node& node : program_.segments[static_cast<std::size_t>(timeline_[i].segment)].nodes)
        add(node, static_cast<int>(i));
    }
    return std::move(result_);
  }

 private:
  void add(const Node& node, int step_index) {
    const TimelineStep& step = timeline_[static_cast<std::size_t>(step_index)];
    const int lane = static_cast<int>(node.lane);
    Occurrence occurrence;
    occurrence.node = &node;
    occurrence.step = step_index;
    LaneClock lane_clock = lane_clocks_[lane];
    occurrence.before = lane_clock;
    wait_list_.clear();

    for_each_operand(node.op, [&](const Operand& operand, Access access, std::string_view) {
      const ByteRect rect = rect_of(program_.value(operand.value));
      for (const Touch& touch : history(operand.value, step).touches)
        if ((touch.write || writes(access)) && overlap_bytes(touch.rect, rect) > 0)
          depend(touch.done, touch.lane, touch.ticket);
    });
    for (const NodeId id : node.after) {
      const auto it = in_step_.find(id);
      TITAN_CHECK(it != in_step_.end(), "node {} is after node {}, which does not come earlier in segment {}",
                  node.id, id, program_.segments[static_cast<std::size_t>(step.segment)].name);
      const Occurrence& earlier = result_[it->second];
      depend(finished(earlier), earlier.node->lane, earlier.ticket);
    }
    for (const Pending& pending : wait_list_) occurrence.before.raise(pending.done);
    keep_needed_waits(lane, lane_clock, occurrence);

    occurrence.ticket = ++tickets_[lane];
    occurrence.overwrite = record(node, step, occurrence);
    lane_clocks_[lane] = finished(occurrence);
    in_step_[node.id] = result_.size();
    result_.push_back(std::move(occurrence));
  }

  static LaneClock finished(const Occurrence& o) {
    LaneClock clock = o.before;
    clock.finished[static_cast<int>(o.node->lane)] = o.ticket;
    return clock;
  }

  struct Pending {
    LaneClock done;
    Lane lane;
    std::int32_t ticket;
  };

  void depend(const LaneClock& done, Lane lane, std::int32_t ticket) {
    wait_list_.push_back({done, lane, ticket});
  }

  /// Of the dependencies keeps the latest of each other lane that neither the own lane's past nor another one
  /// implies.
  void keep_needed_waits(int own, const LaneClock& known, Occurrence& occurrence) {
    std::sort(wait_list_.begin(), wait_list_.end(), [](const Pending& a, const Pending& b) {
      return a.lane != b.lane ? a.lane < b.lane : a.ticket > b.ticket;
    });
    for (const Pending& p : wait_list_) {
      const int lane = static_cast<int>(p.lane);
      if (lane == own || known.finished[lane] >= p.ticket) continue;
      const bool implied = std::any_of(wait_list_.begin(), wait_list_.end(), [&](const Pending& other) {
        const int ol = static_cast<int>(other.lane);
        return ol != lane && ol != own && other.done.finished[lane] >= p.ticket;
      });
      const bool repeated = !occurrence.waits.empty() && occurrence.waits.back().lane == lane;
      if (!implied && !repeated) occurrence.waits.push_back({lane, p.ticket});
    }
  }

  /// Enters the node's touches; returns which accumulating operands are written for the first time.
  std::uint32_t record(const Node& node, const TimelineStep& step, const Occurrence& occurrence) {
    std::uint32_t overwrite = 0;
    int index = 0;
    const LaneClock done = finished(occurrence);
    for_each_operand(node.op, [&](const Operand& operand, Access access, std::string_view) {
      const Value& value = program_.value(operand.value);
      const ByteRect rect = rect_of(value);
      History& past = history(operand.value, step);
      begin_life(past, value, step);
      if (access == Access::accumulate) {
        const bool seen = std::any_of(past.accumulated.begin(), past.accumulated.end(),
                                      [&](const ByteRect& r) { return overlap_bytes(r, rect) > 0; });
        if (!seen) {
          overwrite |= 1u << index;
          past.accumulated.push_back(rect);
        }
      }
      const bool write = writes(access);
      std::erase_if(past.touches, [&](const Touch& t) {
        const bool covered = overlap_bytes(t.rect, rect) == t.rect.bytes();
        return covered && (write || (!t.write && t.lane == node.lane));
      });
      past.touches.push_back({rect, done, node.lane, occurrence.ticket, write});
      ++index;
    });
    return overwrite;
  }

  /// A slot's value starts a new life with each micro-batch: accumulation starts over, hazards with the old
  /// life stay.
  static void begin_life(History& past, const Value& value, const TimelineStep& step) {
    const int life = value.lifetime == Lifetime::slot ? step.micro_batch : 0;
    if (past.life == life) return;
    past.life = life;
    past.accumulated.clear();
  }

  History& history(ValueId id, const TimelineStep& step) {
    const ValueId base = program_.base_of(id);
    return histories_[first_instance_[static_cast<std::size_t>(base)] +
                      static_cast<std::size_t>(instance_of(program_.value(base), step))];
  }

  const Program& program_;
  const std::vector<TimelineStep>& timeline_;
  std::vector<std::size_t> first_instance_;
  std::vector<History> histories_;
  std::vector<Occurrence> result_;
  std::vector<Pending> wait_list_;
  std::unordered_map<NodeId, std::size_t> in_step_;
  std::array<LaneClock, kLanes> lane_clocks_{};
  std::array<std::int32_t, kLanes> tickets_{};
};

}  // namespace

std::vector<Occurrence> unroll(const Program& program, const std::vector<TimelineStep>& timeline) {
  return Unroller(program, timeline).run();
}

}  // namespace titan
