// Lifetimes: from when to when each piece of transient memory is in use, over the unrolled program.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/order.h"

namespace titan {

/// One life: the memory is in use from `begin` to `end` (positions in the unrolled list, inclusive).
struct Episode {
  int begin, end;
  LaneClock start;  ///< has certainly finished when any of the uses starts
  LaneClock last;   ///< finished means: all uses are over
};

/// A base value's instance, or several that hand one piece of memory on in place (ops.h: kShare).
struct LiveItem {
  struct Member {
    ValueId base;
    int instance;
  };
  Space space = Space::device;
  std::int64_t bytes = 0;  ///< aligned; a value with one instance a micro-batch is one item with all of them
  std::vector<Member> members;
  std::vector<Episode> episodes;

  /// Whether both may have the same memory: in every pair of lives one is proven to be over before the other
  /// begins.
  bool excludes(const LiveItem& other, bool one_lane) const;
};

struct Lifetimes {
  std::vector<LiveItem> items;
  int occurrences = 0;
  bool one_lane = true;
};

/// Transient values only. With one slot, three micro-batches (first, middle, last) stand for any number.
Lifetimes lifetimes(const Program& program);

}  // namespace titan
