#include <cmath>

#include "kernels/cpu/base/run.h"
#include "kernels/cpu/elementwise/dispatch.h"

namespace titan::cpu {
namespace {

const LossKernels& kernels(Isa isa) { return choose(isa, baseline::kLoss, avx2::kLoss, avx512::kLoss); }

}  // namespace

void run(const LogitStats& op, const Context& context) {
  const LogitStatsArgs args{rows_of(context, op.logits), rows_of(context, op.targets),
                            rows_of(context, op.stats), op.logits.cols, op.first_column};
  const auto kernel = kernels(context.isa).logit_stats[element_type(op.logits)];
  context.team.parallel_for(op.logits.rows, grain_of_rows(op.logits.cols),
                            [&](std::int64_t begin, std::int64_t end) { kernel(args, begin, end); });
}

void run(const CrossEntropyGrad& op, const Context& context) {
  const CrossEntropyGradArgs args{rows_of(context, op.logits),
                                  rows_of(context, op.stats),
                                  rows_of(context, op.targets),
                                  rows_of(context, op.dlogits),
                                  op.logits.cols,
                                  op.first_column,
                                  *context.data_as<float>(op.valid_tokens)};
  const auto kernel = kernels(context.isa).cross_entropy_grad[element_type(op.logits)];
  context.team.parallel_for(op.logits.rows, grain_of_rows(op.logits.cols),
                            [&](std::int64_t begin, std::int64_t end) { kernel(args, begin, end); });
}

/// One addition a token: not worth threads, and in token order.
void run(const CrossEntropyLoss& op, const Context& context) {
  const float* stats = context.data_as<float>(op.stats);
  const std::int32_t* targets = context.data_as<std::int32_t>(op.targets);
  double total = 0;
  for (std::int64_t r = 0; r < op.stats.rows; ++r, stats += op.stats.pitch)
    if (targets[r * op.targets.pitch] >= 0) total += stats[0] + std::log(double{stats[1]}) - stats[2];
  const double mean = total == 0 ? 0 : total / *context.data_as<float>(op.valid_tokens);
  float* loss = context.data_as<float>(op.loss);
  constexpr int kLoss = 3;
  *loss = static_cast<float>(context.overwrites(kLoss) ? mean : *loss + mean);
}

}  // namespace titan::cpu
