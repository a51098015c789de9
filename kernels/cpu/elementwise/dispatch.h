// From an operation to its range kernels.
#pragma once

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/cpu/base/context.h"
#include "kernels/cpu/base/team.h"
#include "kernels/cpu/elementwise/kernels.h"

namespace titan::cpu {

inline ElementType element_type(const Operand& operand) {
  TITAN_CHECK(operand.dtype == DType::f32 || operand.dtype == DType::bf16, "operand is {}",
              to_string(operand.dtype));
  return operand.dtype == DType::f32 ? kF32 : kBf16;
}

inline Rows rows_of(const Context& context, const Operand& operand) {
  return {context.data(operand), operand.pitch};
}

/// Rows to give a thread at least: about 16 Ki elements.
inline std::int64_t grain_of_rows(std::int64_t cols) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, cols));
}

}  // namespace titan::cpu
