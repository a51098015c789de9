#include "engine/program/place.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "engine/program/lifetime.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

constexpr double kGoodEnough = 0.01;  ///< waste below which no further order is tried

/// The largest set of items alive at one position of the list, and its parts by role.
void find_lower_bound(const Program& program, const Lifetimes& lives, Space space, TransientReport& report,
                      std::vector<char>& alive_at_peak) {
  std::vector<std::int64_t> change(static_cast<std::size_t>(lives.occurrences) + 2, 0);
  const auto clamp = [&](int position) { return std::clamp(position, 0, lives.occurrences); };
  for (const LiveItem& item : lives.items) {
    if (item.space != space) continue;
    for (const Episode& e : item.episodes) {
      change[static_cast<std::size_t>(clamp(e.begin))] += item.bytes;
      change[static_cast<std::size_t>(clamp(std::min(e.end, lives.occurrences - 1)) + 1)] -= item.bytes;
    }
  }
  std::int64_t alive = 0;
  int peak = 0;
  for (int p = 0; p < lives.occurrences; ++p) {
    alive += change[static_cast<std::size_t>(p)];
    if (alive > report.lower_bound) {
      report.lower_bound = alive;
      peak = p;
    }
  }
  alive_at_peak.assign(lives.items.size(), 0);
  for (std::size_t i = 0; i < lives.items.size(); ++i) {
    const LiveItem& item = lives.items[i];
    if (item.space != space) continue;
    const bool alive_here = std::any_of(item.episodes.begin(), item.episodes.end(),
                                        [&](const Episode& e) { return e.begin <= peak && peak <= e.end; });
    if (!alive_here) continue;
    alive_at_peak[i] = 1;
    report.by_role[static_cast<std::size_t>(program.value(item.members.front().base).role)] += item.bytes;
  }
}

/// Puts items one after the other into the lowest gap between those placed before that they may not share
/// memory with.
class Packer {
 public:
  Packer(const std::vector<LiveItem>& items, bool one_lane)
      : items_(items), one_lane_(one_lane), offsets_(items.size(), 0) {}

  /// Returns the end of the highest item; stops early once that exceeds `limit`.
  std::int64_t pack(const std::vector<std::size_t>& order, std::int64_t limit) {
    placed_.clear();
    std::int64_t top = 0;
    for (const std::size_t index : order) {
      const std::int64_t offset = lowest_gap(items_[index]);
      offsets_[index] = offset;
      const auto by_offset = [&](std::size_t a, std::int64_t value) { return offsets_[a] < value; };
      placed_.insert(std::lower_bound(placed_.begin(), placed_.end(), offset, by_offset), index);
      top = std::max(top, offset + items_[index].bytes);
      if (top > limit) break;
    }
    return top;
  }
  const std::vector<std::int64_t>& offsets() const { return offsets_; }

 private:
  std::int64_t lowest_gap(const LiveItem& item) const {
    std::int64_t end = 0;
    for (const std::size_t other : placed_) {
      const std::int64_t begin = offsets_[other];
      if (begin + items_[other].bytes <= end) continue;
      if (item.excludes(items_[other], one_lane_)) continue;
      if (begin >= end + item.bytes) break;
      end = std::max(end, begin + items_[other].bytes);
    }
    return end;
  }

  const std::vector<LiveItem>& items_;
  bool one_lane_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::size_t> placed_;  ///< by offset
};

/// Outputs live for ever, so the difference needs more than an int.
std::int64_t length_of(const LiveItem& item) {
  std::int64_t length = 0;
  for (const Episode& e : item.episodes) length = std::max(length, std::int64_t{e.end} - e.begin);
  return length;
}

/// Orders worth trying, most promising first.
std::vector<std::vector<std::size_t>> candidate_orders(const std::vector<LiveItem>& items, Space space,
                                                       const std::vector<char>& alive_at_peak) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (items[i].space == space) all.push_back(i);
  std::vector<std::vector<std::size_t>> orders;
  const auto add = [&](auto less) {
    orders.push_back(all);
    std::stable_sort(orders.back().begin(), orders.back().end(), less);
  };
  const auto larger = [&](std::size_t a, std::size_t b) { return items[a].bytes > items[b].bytes; };
  const auto longer = [&](std::size_t a, std::size_t b) { return length_of(items[a]) > length_of(items[b]); };
  add([&](std::size_t a, std::size_t b) {
    if (alive_at_peak[a] != alive_at_peak[b]) return alive_at_peak[a] > alive_at_peak[b];
    return alive_at_peak[a] != 0 ? longer(a, b) : larger(a, b);
  });
  add(larger);
  add([&](std::size_t a, std::size_t b) {
    if (alive_at_peak[a] != alive_at_peak[b]) return alive_at_peak[a] > alive_at_peak[b];
    return larger(a, b);
  });
  add(longer);
  return orders;
}

}  // namespace

class Placer {
 public:
  explicit Placer(std::span<const Program* const> programs) : programs_(programs) {
    placement_.programs_.resize(programs.size());
  }

  Placement run() {
    for (std::size_t p = 0; p < programs_.size(); ++p) place_persistent(p);
    for (std::size_t p = 0; p < programs_.size(); ++p) place_transient(p);
    for (SpaceReport& space : placement_.spaces_) {
      space.arena_bytes = space.persistent_bytes;
      for (const TransientReport& t : space.programs)
        space.arena_bytes = std::max(space.arena_bytes, space.persistent_bytes + t.bytes);
    }
    return std::move(placement_);
  }

 private:
  void place_persistent(std::size_t index) {
    const Program& program = *programs_[index];
    auto& places = placement_.programs_[index];
    std::size_t instances = 0;
    for (const Value& v : program.values) {
      places.first_instance.push_back(instances);
      instances += static_cast<std::size_t>(instance_count(v, program));
    }
    places.offsets.assign(instances, -1);
    for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
      const Value& v = program.value(id);
      if (v.lifetime != Lifetime::persistent || v.is_view()) continue;
      SpaceReport& space = placement_.spaces_[static_cast<std::size_t>(v.space)];
      const auto [it, added] =
          persistent_.try_emplace(v.name, Persistent{v.bytes(), v.dtype, space.persistent_bytes});
      if (added) {
        space.persistent_bytes += aligned(v.bytes());
        space.persistent_by_role[static_cast<std::size_t>(v.role)] += aligned(v.bytes());
      }
      TITAN_CHECK(it->second.bytes == v.bytes() && it->second.dtype == v.dtype,
                  "programs disagree about {}: {} and {} bytes", v.name, it->second.bytes, v.bytes());
      set_offsets(index, id, 0, it->second.offset);
    }
    set_views(index, Lifetime::persistent);
  }

  void place_transient(std::size_t index) {
    const Program& program = *programs_[index];
    const Lifetimes lives = lifetimes(program);
    for (const Space space : {Space::device, Space::host}) {
      SpaceReport& total = placement_.spaces_[static_cast<std::size_t>(space)];
      TransientReport report;
      std::vector<char> alive_at_peak;
      find_lower_bound(program, lives, space, report, alive_at_peak);
      const std::vector<std::int64_t> offsets = best_packing(lives, space, alive_at_peak, report);
      for (std::size_t i = 0; i < lives.items.size(); ++i) {
        if (lives.items[i].space != space) continue;
        for (const LiveItem::Member& member : lives.items[i].members)
          set_offsets(index, member.base, member.instance, total.persistent_bytes + offsets[i]);
      }
      total.programs.push_back(report);
    }
    for (const Lifetime lifetime : {Lifetime::step, Lifetime::micro_batch, Lifetime::slot})
      set_views(index, lifetime);
  }

  static std::vector<std::int64_t> best_packing(const Lifetimes& lives, Space space,
                                                const std::vector<char>& alive_at_peak,
                                                TransientReport& report) {
    std::vector<std::int64_t> best(lives.items.size(), 0);
    report.bytes = std::numeric_limits<std::int64_t>::max();
    Packer packer(lives.items, lives.one_lane);
    for (const auto& order : candidate_orders(lives.items, space, alive_at_peak)) {
      const std::int64_t bytes = packer.pack(order, report.bytes);
      if (bytes >= report.bytes) continue;
      report.bytes = bytes;
      best = packer.offsets();
      if (report.waste() <= kGoodEnough) break;
    }
    return best;
  }

  /// One instance, or all of a value that has one a micro-batch.
  void set_offsets(std::size_t index, ValueId id, int instance, std::int64_t offset) {
    const Value& v = programs_[index]->value(id);
    auto& places = placement_.programs_[index];
    const std::size_t first = places.first_instance[static_cast<std::size_t>(id)];
    if (v.lifetime != Lifetime::micro_batch) {
      places.offsets[first + static_cast<std::size_t>(instance)] = offset;
      return;
    }
    for (int m = 0; m < programs_[index]->micro_batches; ++m)
      places.offsets[first + static_cast<std::size_t>(m)] = offset + m * aligned(v.bytes());
  }

  void set_views(std::size_t index, Lifetime lifetime) {
    const Program& program = *programs_[index];
    auto& places = placement_.programs_[index];
    for (std::size_t id = 0; id < program.values.size(); ++id) {
      const Value& v = program.values[id];
      if (!v.is_view() || v.lifetime != lifetime) continue;
      for (int k = 0; k < instance_count(v, program); ++k) {
        const std::int64_t base = placement_.offset(static_cast<int>(index), v.base, k);
        places.offsets[places.first_instance[id] + static_cast<std::size_t>(k)] =
            base < 0 ? -1 : base + v.offset;
      }
    }
  }

  struct Persistent {
    std::int64_t bytes;
    DType dtype;
    std::int64_t offset;
  };

  std::span<const Program* const> programs_;
  Placement placement_;
  std::map<std::string, Persistent> persistent_;
};

Placement place(std::span<const Program* const> programs) { return Placer(programs).run(); }

void verify_placement(std::span<const Program* const> programs, const Placement& placement) {
  for (std::size_t p = 0; p < programs.size(); ++p) {
    const Program& program = *programs[p];
    const Lifetimes lives = lifetimes(program);
    struct Extent {
      std::int64_t begin, end;
      const LiveItem* item;
    };
    std::vector<Extent> extents;
    for (const LiveItem& item : lives.items) {
      const LiveItem::Member& first = item.members.front();
      const std::int64_t begin = placement.offset(static_cast<int>(p), first.base, first.instance);
      for (const LiveItem::Member& member : item.members)
        TITAN_CHECK_EQ(placement.offset(static_cast<int>(p), member.base, member.instance), begin);
      const SpaceReport& space = placement.space(item.space);
      TITAN_CHECK(begin >= space.persistent_bytes && begin + item.bytes <= space.arena_bytes,
                  "{} lies outside the arena", program.value(first.base).name);
      extents.push_back({begin, begin + item.bytes, &item});
    }
    std::sort(extents.begin(), extents.end(),
              [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    for (std::size_t i = 0; i < extents.size(); ++i)
      for (std::size_t j = i + 1; j < extents.size() && extents[j].begin < extents[i].end; ++j)
        TITAN_CHECK(extents[i].item->space != extents[j].item->space ||
                        extents[i].item->excludes(*extents[j].item, lives.one_lane),
                    "{} and {} share memory but may be alive together",
                    program.value(extents[i].item->members.front().base).name,
                    program.value(extents[j].item->members.front().base).name);
  }
}

}  // namespace titan
