// RMSNorm: Zhang and Sennrich, "Root mean square layer normalization", 2019.
#include <cstring>

#include "kernels/cpu/base/run.h"
#include "kernels/cpu/elementwise/dispatch.h"
#include "kernels/cpu/elementwise/fused_float8.h"

namespace titan::cpu {
namespace {

const NormKernels& kernels(Isa isa) { return choose(isa, baseline::kNorm, avx2::kNorm, avx512::kNorm); }

}  // namespace

void run(const RmsNorm& op, const Context& context) {
  const RmsNormArgs args{rows_of(context, op.x),
                         rows_of(context, op.delta),
                         rows_of(context, op.weight),
                         rows_of(context, op.sum),
                         rows_of(context, op.y),
                         rows_of(context, op.inv_rms),
                         op.x.cols,
                         op.epsilon};
  const auto kernel = kernels(context.isa).rms_norm[element_type(op.x)];
  FusedFloat8 fused(context, op.y, op.amax, op.quantized, op.scale);
  context.team.parallel_for(op.x.rows, grain_of_rows(op.x.cols), [&](std::int64_t begin, std::int64_t end) {
    fused.rows(begin, end, [&](std::int64_t first, std::int64_t last) { kernel(args, first, last); });
  });
  fused.finish();
}

void run(const RmsNormGrad& op, const Context& context) {
  const RmsNormGradArgs args{rows_of(context, op.dy),
                             rows_of(context, op.x),
                             rows_of(context, op.weight),
                             rows_of(context, op.inv_rms),
                             rows_of(context, op.dresidual),
                             rows_of(context, op.dx),
                             op.x.cols};
  const NormKernels& table = kernels(context.isa);
  const auto kernel = table.rms_norm_grad[element_type(op.x)];
  // The blocks follow from the shapes alone, so the sums do not depend on the number of threads.
  const std::int64_t rows = op.x.rows, cols = op.x.cols;
  const std::int64_t block = (rows + op.partial.rows - 1) / op.partial.rows;
  const std::int64_t blocks = (rows + block - 1) / block;
  float* partial = context.data_as<float>(op.partial);
  FusedFloat8 fused(context, op.dx, op.amax);
  context.team.parallel_items(blocks, [&](std::int64_t b, int) {
    float* dweight = partial + b * op.partial.pitch;
    std::memset(dweight, 0, static_cast<std::size_t>(cols) * sizeof(float));
    fused.rows(b * block, std::min(rows, (b + 1) * block),
               [&](std::int64_t begin, std::int64_t end) { kernel(args, dweight, begin, end); });
  });
  fused.finish();
  constexpr int kDweight = 5;
  const bool add = !context.overwrites(kDweight + (op.dresidual ? 1 : 0));
  context.team.parallel_for(cols, 256, [&](std::int64_t begin, std::int64_t end) {
    table.sum_rows(rows_of(context, op.partial), blocks, context.data_as<float>(op.dweight), add, begin, end);
  });
}

}  // namespace titan::cpu
