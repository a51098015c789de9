#include "engine/program/lifetime.h"

#include <algorithm>
#include <limits>
#include <map>

#include "engine/program/place.h"

namespace titan {
namespace {

constexpr int kForever = std::numeric_limits<int>::max();

/// The timeline placement looks at: micro-batches in one slot repeat themselves, so the first two and the
/// last suffice.
std::vector<TimelineStep> representative(const Program& program) {
  if (program.slots > 1 || program.micro_batches <= 3) return program.timeline;
  std::vector<TimelineStep> kept;
  for (const TimelineStep& step : program.timeline)
    if (step.micro_batch < 2 || step.micro_batch == program.micro_batches - 1) kept.push_back(step);
  return kept;
}

bool proven_before(const Episode& a, const Episode& b, bool one_lane) {
  return a.end < b.begin && (one_lane || b.start.covers(a.last));
}

class Collector {
 public:
  explicit Collector(const Program& program)
      : program_(program), timeline_(representative(program)), list_(unroll(program, timeline_)) {}

  Lifetimes run() {
    for (const Occurrence& o : list_) one_lane_ = one_lane_ && o.node->lane == list_.front().node->lane;
    for (int position = 0; position < static_cast<int>(list_.size()); ++position) touch_operands(position);
    extend_host_values();
    for (int position = 0; position < static_cast<int>(list_.size()); ++position) share_in_place(position);
    std::erase_if(items_, [](const LiveItem& item) { return item.members.empty(); });
    return {std::move(items_), static_cast<int>(list_.size()), one_lane_};
  }

 private:
  const TimelineStep& step_of(const Occurrence& o) const {
    return timeline_[static_cast<std::size_t>(o.step)];
  }

  void touch_operands(int position) {
    const Occurrence& o = list_[static_cast<std::size_t>(position)];
    for_each_operand(o.node->op, [&](const Operand& operand, Access, std::string_view) {
      const ValueId base = program_.base_of(operand.value);
      const Value& value = program_.value(base);
      if (value.lifetime == Lifetime::persistent) return;
      LiveItem& item = items_[item_of(base, step_of(o))];
      const int life = value.lifetime == Lifetime::slot ? step_of(o).micro_batch : 0;
      auto& [current, known] = current_life_[&item - items_.data()];
      if (!known || current != life) {
        item.episodes.push_back({position, position, o.before, {}});
        current = life;
        known = true;
      }
      Episode& episode = item.episodes.back();
      episode.end = position;
      episode.start.lower(o.before);
      std::int32_t& last = episode.last.finished[static_cast<int>(o.node->lane)];
      last = std::max(last, o.ticket);
    });
  }

  std::size_t item_of(ValueId base, const TimelineStep& step) {
    const Value& value = program_.value(base);
    const bool all_in_one = value.lifetime == Lifetime::micro_batch;
    const int instance = all_in_one ? 0 : instance_of(value, step);
    const auto [it, added] = index_.try_emplace({base, instance}, items_.size());
    if (added) {
      LiveItem item;
      item.space = value.space;
      item.bytes = aligned(value.bytes()) * (all_in_one ? program_.micro_batches : 1);
      item.members.push_back({base, instance});
      items_.push_back(std::move(item));
      current_life_.emplace_back();
    }
    return it->second;
  }

  /// The host writes inputs before the step and reads outputs after it.
  void extend_host_values() {
    for (LiveItem& item : items_) {
      const Value& value = program_.value(item.members.front().base);
      const bool whole_step = value.lifetime == Lifetime::micro_batch;
      if (value.role == Role::input || whole_step) {
        item.episodes.front().begin = -1;
        item.episodes.front().start = {};
      }
      if (value.role == Role::output || whole_step) {
        item.episodes.back().end = kForever;
        item.episodes.back().last.finished.fill(kForever);
      }
    }
  }

  /// Lets an output take over the memory of an input that dies in the same node.
  void share_in_place(int position) {
    const Occurrence& o = list_[static_cast<std::size_t>(position)];
    for_each_share(o.node->op, [&](const Operand& written, const Operand& read) {
      const std::size_t from = owner_of(read.value, step_of(o)), to = owner_of(written.value, step_of(o));
      if (from == kNone || to == kNone || from == to || !whole(written) || !whole(read)) return;
      if (can_take_over(items_[from], items_[to], o, position)) merge(from, to);
    });
  }

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::size_t owner_of(ValueId value, const TimelineStep& step) {
    const ValueId base = program_.base_of(value);
    const Value& v = program_.value(base);
    const bool movable = v.lifetime == Lifetime::slot || v.lifetime == Lifetime::step;
    if (!movable || v.role == Role::input || v.role == Role::output) return kNone;
    std::size_t item = index_.at({base, instance_of(v, step)});
    while (moved_.contains(item)) item = moved_.at(item);
    return item;
  }

  bool whole(const Operand& operand) const {
    return operand.bytes() == program_.value(program_.base_of(operand.value)).bytes();
  }

  bool can_take_over(const LiveItem& from, const LiveItem& to, const Occurrence& o, int position) const {
    if (from.space != to.space || from.bytes != to.bytes || from.episodes.size() != to.episodes.size())
      return false;
    const auto at_node = [&](const Episode& e) { return e.begin <= position && position <= e.end; };
    const auto here = std::find_if(to.episodes.begin(), to.episodes.end(), at_node);
    if (here == to.episodes.end()) return false;
    for (std::size_t k = 0; k < to.episodes.size(); ++k)
      if (from.episodes[k].end != to.episodes[k].begin) return false;
    if (from.episodes[static_cast<std::size_t>(here - to.episodes.begin())].end != position) return false;
    if (one_lane_) return true;
    LaneClock done = o.before;
    done.finished[static_cast<int>(o.node->lane)] = o.ticket;
    if (!done.covers(from.episodes[static_cast<std::size_t>(here - to.episodes.begin())].last)) return false;
    // The next life starts in `from` while the last one ended in `to`: that order must be proven as well.
    for (std::size_t k = 0; k + 1 < to.episodes.size(); ++k)
      if (!from.episodes[k + 1].start.covers(to.episodes[k].last)) return false;
    return true;
  }

  void merge(std::size_t from, std::size_t to) {
    LiveItem& kept = items_[from];
    LiveItem& gone = items_[to];
    kept.members.insert(kept.members.end(), gone.members.begin(), gone.members.end());
    for (std::size_t k = 0; k < kept.episodes.size(); ++k) {
      kept.episodes[k].end = gone.episodes[k].end;
      kept.episodes[k].start.lower(gone.episodes[k].start);
      kept.episodes[k].last.raise(gone.episodes[k].last);
    }
    gone.members.clear();
    moved_[to] = from;
  }

  const Program& program_;
  std::vector<TimelineStep> timeline_;
  std::vector<Occurrence> list_;
  std::vector<LiveItem> items_;
  std::vector<std::pair<int, bool>> current_life_;
  std::map<std::pair<ValueId, int>, std::size_t> index_;
  std::map<std::size_t, std::size_t> moved_;
  bool one_lane_ = true;
};

}  // namespace

bool LiveItem::excludes(const LiveItem& other, bool one_lane) const {
  for (const Episode& a : episodes)
    for (const Episode& b : other.episodes)
      if (!proven_before(a, b, one_lane) && !proven_before(b, a, one_lane)) return false;
  return true;
}

Lifetimes lifetimes(const Program& program) { return Collector(program).run(); }

}  // namespace titan
