// SwiGLU: Shazeer, "GLU variants improve Transformer", 2020.
#include "kernels/cpu/base/run.h"
#include "kernels/cpu/elementwise/dispatch.h"
#include "kernels/cpu/elementwise/fused_float8.h"

namespace titan::cpu {
namespace {

const SwiGluKernels& kernels(Isa isa) {
  return choose(isa, baseline::kSwiGlu, avx2::kSwiGlu, avx512::kSwiGlu);
}

}  // namespace

void run(const SwiGlu& op, const Context& context) {
  const SwiGluArgs args{rows_of(context, op.gate_up), rows_of(context, op.y), op.y.cols};
  const auto kernel = kernels(context.isa).swiglu[element_type(op.y)];
  FusedFloat8 fused(context, op.y, op.amax, op.quantized, op.scale);
  context.team.parallel_for(op.y.rows, grain_of_rows(op.y.cols), [&](std::int64_t begin, std::int64_t end) {
    fused.rows(begin, end, [&](std::int64_t first, std::int64_t last) { kernel(args, first, last); });
  });
  fused.finish();
}

void run(const SwiGluGrad& op, const Context& context) {
  const SwiGluGradArgs args{rows_of(context, op.dy), rows_of(context, op.gate_up),
                            rows_of(context, op.dgate_up), op.dy.cols};
  const auto kernel = kernels(context.isa).swiglu_grad[element_type(op.dy)];
  FusedFloat8 fused(context, op.dgate_up, op.amax, op.quantized, op.scale);
  context.team.parallel_for(op.dy.rows, grain_of_rows(op.dy.cols), [&](std::int64_t begin, std::int64_t end) {
    fused.rows(begin, end, [&](std::int64_t first, std::int64_t last) { kernel(args, first, last); });
  });
  fused.finish();
}

}  // namespace titan::cpu
