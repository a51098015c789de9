// The compute lane's only team of threads (OpenMP where built with it). Work is split into fixed contiguous
// ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/base/function_ref.h"

namespace titan::cpu {

class Team {
 public:
  explicit Team(int threads) : threads_(threads < 1 ? 1 : threads), scratch_(threads_) {}
  int threads() const { return threads_; }

  /// Called once by the thread that will run this team, which becomes its first member. Limits OpenMP
  /// libraries called from here to the team's size and binds member i to processors[i] (empty: not bound).
  void adopt(std::span<const int> processors) const;

  /// Calls body(begin, end) on disjoint ranges that cover [0, n). Ranges are multiples of `grain` (the last
  /// may be shorter). Which thread runs which range is fixed; results must not depend on the split.
  void parallel_for(std::int64_t n, std::int64_t grain,
                    FunctionRef<void(std::int64_t begin, std::int64_t end)> body) const;

  /// Like parallel_for with grain 1, but ranges of one item are handed out as threads become free: for uneven
  /// items. Items must be independent. `thread` in [0, threads()) names a scratch slot.
  void parallel_items(std::int64_t n, FunctionRef<void(std::int64_t item, int thread)> body) const;

  /// Working memory of slot `thread`, kept between calls: at least `bytes`, 64-byte aligned, holding nothing.
  /// Only the thread that runs the slot may ask. Valid until the slot asks for more.
  std::byte* scratch(int thread, std::int64_t bytes) const;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  struct Slot {
    std::unique_ptr<std::byte, Free> memory;
    std::int64_t bytes = 0;
  };
  int threads_;
  mutable std::vector<Slot> scratch_;
};

/// Flush subnormal results and inputs to zero in the calling thread: subnormals cost up to 100x on x86.
void flush_subnormals();

}  // namespace titan::cpu
