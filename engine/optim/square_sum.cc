#include "engine/optim/square_sum.h"

#include "engine/program/edit.h"
#include "kernels/cost/workspace.h"

namespace titan {

SquareSum square_sum(Program& program, ValueId x, ValueId sum) {
  const ValueId partial = add_value(program, program.value(sum).name + ".partial", DType::i64, 1,
                                    square_sum_blocks(program.value(x).cols), Role::scratch, Lifetime::step);
  return {.x = operand<In>(program, x),
          .sum = operand<Out>(program, sum),
          .partial = operand<Scratch>(program, partial)};
}

}  // namespace titan
