// cp.async on the host: 16-byte copies from global to shared memory. They happen when they are waited for.
// Until then the destination holds NaN, so both a read before the wait and a buffer that is filled while
// others still read it show.
#pragma once

#include <cstddef>
#include <vector>

namespace titan::cuda::host {

class AsyncCopies {
 public:
  static constexpr std::size_t kBytes = 16;

  /// Zeros instead of a copy when `from` is null.
  void begin(void* to, const void* from);
  /// Ends a group: the copies begun since the last one.
  void commit() { group_ends_.push_back(copies_.size()); }
  /// Finishes all groups but the last `pending`.
  void wait(std::size_t pending);

 private:
  struct Copy {
    void* to;
    const void* from;
  };
  std::vector<Copy> copies_;             ///< not finished, oldest first
  std::vector<std::size_t> group_ends_;  ///< of unfinished groups
};

}  // namespace titan::cuda::host
