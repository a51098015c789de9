// What 8-bit products need of an operation's result, taken while it is in the caches: its largest magnitude,
// or its rows in 8 bits.
#pragma once

#include <atomic>
#include <cstdint>

#include "kernels/base/function_ref.h"
#include "kernels/cpu/base/context.h"

namespace titan::cpu {

class FusedFloat8 {
 public:
  /// Of the rows of `y`; of operands that are absent nothing is done.
  FusedFloat8(const Context& context, const Operand& y, const Operand& amax, const Operand& quantized = {},
              const Operand& scale = {})
      : context_(context), y_(y), amax_(amax), quantized_(quantized), scale_(scale) {}

  /// Calls write(first, end) for rows [begin, end) in pieces, and looks at what it wrote. From any thread.
  void rows(std::int64_t begin, std::int64_t end, FunctionRef<void(std::int64_t, std::int64_t)> write);
  /// Writes the result, once all rows are done.
  void finish() const;

 private:
  void look(std::int64_t begin, std::int64_t end);
  void quantize(std::int64_t begin, std::int64_t end) const;

  const Context& context_;
  const Operand y_, amax_, quantized_, scale_;
  std::atomic<std::uint32_t> most_{0};  ///< bits of f32: of magnitudes, NaN is the largest
};

}  // namespace titan::cpu
