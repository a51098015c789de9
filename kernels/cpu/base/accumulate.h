// Whether an accumulating operand is added onto or overwritten this time.
#pragma once

#include <tuple>

#include "kernels/cpu/base/context.h"

namespace titan::cpu {

/// True when `result`, a member of `op`, must be added onto what is there. Binding::overwrite counts the
/// present operands in declaration order, so the index depends on which optional ones the op has.
template <class OpType>
bool adds(const OpType& op, const Operand& result, const Context& context) {
  int index = -1, present = 0;
  bool accumulates = false;
  auto visit = [&](const auto& operand) {
    if (static_cast<const Operand*>(&operand) == &result) {
      index = present;
      accumulates = operand.access() == Access::accumulate;
    }
    if (operand) ++present;
  };
  std::apply([&](const auto&... operands) { (visit(operands), ...); }, op.operands());
  return accumulates && !context.overwrites(index);
}

}  // namespace titan::cpu
