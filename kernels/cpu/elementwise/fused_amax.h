// The largest magnitude of what an operation writes, taken while it is in the caches.
#pragma once

#include <atomic>
#include <cstdint>

#include "kernels/base/function_ref.h"
#include "kernels/cpu/base/context.h"

namespace titan::cpu {

class FusedAmax {
 public:
  /// Of the rows of `y`; without an `amax` operand nothing is done.
  FusedAmax(const Context& context, const Operand& y, const Operand& amax)
      : context_(context), y_(y), amax_(amax) {}

  /// Calls write(first, end) for rows [begin, end) in pieces, and looks at what it wrote. From any thread.
  void rows(std::int64_t begin, std::int64_t end, FunctionRef<void(std::int64_t, std::int64_t)> write);
  /// Writes the result, once all rows are done.
  void finish() const;

 private:
  void look(std::int64_t begin, std::int64_t end);

  const Context& context_;
  const Operand &y_, &amax_;
  std::atomic<std::uint32_t> most_{0};  ///< bits of f32: of magnitudes, NaN is the largest
};

}  // namespace titan::cpu
