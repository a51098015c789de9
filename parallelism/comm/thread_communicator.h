// Ranks as threads of one process: collectives by barriers and memcpy. For tests and `--local-ranks`. Sums
// are made in f32 in rank order and rounded once (rule: the same bits on every transport).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/op/axis.h"
#include "kernels/op/communicator.h"

namespace titan {

/// The ranks of the world that share an axis with one rank, in axis order; that rank is among them.
struct AxisGroup {
  Axis axis;
  std::vector<int> ranks;
};

/// The meeting place of `ranks` threads. Outlives the sets made from it.
class ThreadWorld {
 public:
  explicit ThreadWorld(int ranks);
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;

  int size() const;
  /// The communicators of `rank`, one for each axis and lane, made when first asked for. An axis that
  /// `groups` does not name has this rank alone. Different ranks may call this from different threads.
  std::unique_ptr<CommunicatorSet> communicators(int rank, std::span<const AxisGroup> groups);
  /// Wakes every rank; all calls from now on throw CommunicationError.
  void abort() noexcept;

 private:
  class Set;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace titan
