#include "kernels/cuda/attention/kernels.h"
#include "kernels/cuda/base/run.h"

namespace titan::cuda {

void run(const Attention& op, const Context& context) {
  attention_general(make_problem(op, context), context.stream);
}

void run(const AttentionGrad& op, const Context& context) {
  attention_general(make_problem(op, context), context.stream);
}

}  // namespace titan::cuda
