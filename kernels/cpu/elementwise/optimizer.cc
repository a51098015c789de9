#include <algorithm>
#include <cmath>

#include "kernels/cpu/base/run.h"
#include "kernels/cpu/elementwise/dispatch.h"

namespace titan::cpu {
namespace {

const OptimizerKernels& kernels(Isa isa) {
  return choose(isa, baseline::kOptimizer, avx2::kOptimizer, avx512::kOptimizer);
}

}  // namespace

void run(const SquareSum& op, const Context& context) {
  const std::int64_t n = op.x.elements(), units = (n + kSquareSumUnit - 1) / kSquareSumUnit;
  const std::int64_t blocks = op.partial.cols, block = (units + blocks - 1) / blocks * kSquareSumUnit;
  const float* x = context.data_as<float>(op.x);
  auto* partial = context.data_as<double>(op.partial);
  context.team.parallel_items(blocks, [&](std::int64_t b, int) {
    const std::int64_t begin = std::min(n, b * block);
    partial[b] = kernels(context.isa).square_sum(x + begin, std::min(block, n - begin));
  });
  double total = 0;
  for (std::int64_t b = 0; b < blocks; ++b) total += partial[b];
  *context.data_as<float>(op.sum) = static_cast<float>(total);
}

void run(const ClipScale& op, const Context& context) {
  double total = 0;
  for (std::int64_t r = 0; r < op.square_sums.rows; ++r)
    for (std::int64_t c = 0; c < op.square_sums.cols; ++c)
      total += context.data_as<float>(op.square_sums)[r * op.square_sums.pitch + c];
  const float norm = static_cast<float>(std::sqrt(total));
  const bool finite = std::isfinite(norm) && std::isfinite(*context.data_as<float>(op.loss));
  *context.data_as<float>(op.norm) = norm;
  *context.data_as<float>(op.scale) =
      op.max_norm > 0 && finite ? std::min(1.0f, op.max_norm / (norm + 1e-6f)) : 1.0f;
  if (!finite) *context.data_as<std::int32_t>(op.stop) = 1;
}

void run(const AdamW& op, const Context& context) {
  if (*context.data_as<std::int32_t>(op.stop) != 0) return;
  const float* hyper = context.data_as<float>(op.hyper);
  const AdamWArgs args{context.data_as<float>(op.grad),
                       context.data_as<float>(op.param),
                       context.data_as<float>(op.exp_avg),
                       context.data_as<float>(op.exp_avg_sq),
                       *context.data_as<float>(op.scale),
                       hyper[0],
                       hyper[1],
                       hyper[2],
                       op.beta1,
                       op.beta2,
                       op.epsilon,
                       op.weight_decay};
  const auto kernel = kernels(context.isa).adamw;
  context.team.parallel_for(op.param.elements(), 16384,
                            [&](std::int64_t begin, std::int64_t end) { kernel(args, begin, end); });
}

}  // namespace titan::cpu
