#include <algorithm>
#include <initializer_list>

#include "kernels/cuda/attention/choice.h"
#include "kernels/cuda/attention/kernels.h"
#include "kernels/cuda/base/run.h"

namespace titan::cuda {
namespace {

constexpr std::uintptr_t kAlignment = 16;

bool aligned(const Context& context, std::initializer_list<const Operand*> operands) {
  return std::all_of(operands.begin(), operands.end(), [&](const Operand* o) {
    return reinterpret_cast<std::uintptr_t>(context.data(*o)) % kAlignment == 0;
  });
}

}  // namespace

void run(const Attention& op, const Context& context) {
  const ForwardProblem problem = make_problem(op, context);
  switch (attention_kernel(op, context.device, aligned(context, {&op.q, &op.k, &op.v, &op.out}))) {
    case AttentionKernel::general:
      return attention_general(problem, context.stream);
    case AttentionKernel::tensor_core:
      return attention_on_tensor_cores(problem, context.stream);
    case AttentionKernel::hopper:
      return attention_on_hopper(problem, context.stream);
  }
}

void run(const AttentionGrad& op, const Context& context) {
  const BackwardProblem problem = make_problem(op, context);
  const bool on_boundaries = aligned(context, {&op.dout, &op.q, &op.k, &op.v, &op.dq, &op.dk, &op.dv});
  switch (attention_kernel(op, context.device, on_boundaries)) {
    case AttentionKernel::general:
      return attention_general(problem, context.stream);
    case AttentionKernel::tensor_core:
      return attention_on_tensor_cores(problem, context.stream);
    case AttentionKernel::hopper:
      return attention_on_hopper(problem, context.stream);
  }
}

}  // namespace titan::cuda
