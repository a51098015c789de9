// The operations around attention that go row by row.
#include <cstring>

#include "kernels/base/error.h"
#include "kernels/cpu/attention/driver.h"
#include "kernels/cpu/base/run.h"
#include "kernels/cpu/base/team.h"

namespace titan::cpu {
namespace {

constexpr std::int64_t kRowsPerRange = 16;

HeadMatrix head_matrix(const Context& context, const Operand& operand, DType dtype) {
  TITAN_CHECK_EQ(to_string(operand.dtype), std::string_view(to_string(dtype)));
  return {context.data(operand), dtype, operand.pitch};
}

}  // namespace

void merge_lse(const MergeLse& op, const Context& context, const AttentionKernels& kernels) {
  TITAN_CHECK_EQ(op.lse.cols * op.head_dim, op.out.cols);
  const DType dtype = op.out.dtype;
  const MergeTask task{head_matrix(context, op.out_a, dtype), head_matrix(context, op.lse_a, DType::f32),
                       head_matrix(context, op.out_b, dtype), head_matrix(context, op.lse_b, DType::f32),
                       head_matrix(context, op.out, dtype),   head_matrix(context, op.lse, DType::f32),
                       static_cast<int>(op.lse.cols),         op.head_dim};
  context.team.parallel_for(op.out.rows, kRowsPerRange,
                            [&](std::int64_t begin, std::int64_t end) { kernels.merge(task, begin, end); });
}

void attention_delta(const AttentionDelta& op, const Context& context, const AttentionKernels& kernels) {
  TITAN_CHECK_EQ(op.delta.cols * op.head_dim, op.out.cols);
  const DType dtype = op.out.dtype;
  const DeltaTask task{head_matrix(context, op.dout, dtype), head_matrix(context, op.out, dtype),
                       head_matrix(context, op.delta, DType::f32), static_cast<int>(op.delta.cols),
                       op.head_dim};
  context.team.parallel_for(op.out.rows, kRowsPerRange,
                            [&](std::int64_t begin, std::int64_t end) { kernels.delta(task, begin, end); });
}

void run(const MergeLse& op, const Context& context) {
  merge_lse(op, context, attention_kernels(context.isa));
}

void run(const AttentionDelta& op, const Context& context) {
  attention_delta(op, context, attention_kernels(context.isa));
}

void run(const CacheWrite& op, const Context& context) {
  TITAN_CHECK(op.x.dtype == op.cache.dtype && op.x.cols == op.cache.cols);
  const std::int64_t length = op.x.rows / op.sequences, capacity = op.cache.rows / op.sequences;
  const std::int64_t element = size_of(op.x.dtype);
  const std::int32_t* const position = positions(context, op.positions, 0);
  for (std::int64_t row = 0; row < op.x.rows; ++row) TITAN_CHECK_LT(position[row], capacity);
  context.team.parallel_for(op.x.rows, kRowsPerRange, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (position[row] < 0) continue;
      const std::int64_t to = row / length * capacity + position[row];
      std::memcpy(context.data(op.cache) + to * op.cache.pitch * element,
                  context.data(op.x) + row * op.x.pitch * element,
                  static_cast<std::size_t>(op.x.cols * element));
    }
  });
}

}  // namespace titan::cpu
