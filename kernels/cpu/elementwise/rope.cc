// Rotary position embedding: Su et al., "RoFormer", 2021. Frequency scaling: Llama 3.1.
#include <cmath>
#include <numbers>

#include "kernels/cpu/base/run.h"
#include "kernels/cpu/elementwise/dispatch.h"
#include "kernels/cpu/elementwise/fused_float8.h"

namespace titan::cpu {
namespace {

/// Long wavelengths are stretched by `factor`, short ones kept, those between interpolated.
double scaled(double frequency, const RopeScaling& s) {
  const double turns = static_cast<double>(s.original_length) * frequency / (2 * std::numbers::pi);
  const double keep =
      std::clamp((turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor), 0., 1.);
  return frequency * (keep + (1 - keep) / s.factor);
}

void check_positions(const Rope& op, const Context& context) {
  const std::int32_t* positions = context.data_as<std::int32_t>(op.positions);
  std::int64_t last = -1;
  for (std::int64_t r = 0; r < op.x.rows; ++r)
    last = std::max<std::int64_t>(last, positions[r * op.positions.pitch]);
  TITAN_CHECK(last < op.table.rows, "position {} of a table of {}", last, op.table.rows);
}

}  // namespace

void run(const RopeTable& op, const Context& context) {
  const std::int64_t half = op.table.cols / 2;
  context.team.parallel_for(op.table.rows, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double frequency = scaled(
          std::pow(op.theta, -2. * static_cast<double>(i) / static_cast<double>(op.table.cols)), op.scaling);
      for (std::int64_t p = begin; p < end; ++p) {
        float* row = context.data_as<float>(op.table) + p * op.table.pitch;
        const double angle = static_cast<double>(p) * frequency;
        row[i] = static_cast<float>(std::cos(angle));
        row[half + i] = static_cast<float>(std::sin(angle));
      }
    }
  });
}

void run(const Rope& op, const Context& context) {
  check_positions(op, context);
  const RopeArgs args{rows_of(context, op.x),
                      rows_of(context, op.y),
                      rows_of(context, op.positions),
                      rows_of(context, op.table),
                      op.x.cols,
                      op.head_dim,
                      op.rotated_heads,
                      op.inverse};
  const auto kernel = choose(context.isa, baseline::kRope, avx2::kRope, avx512::kRope)
                          .rope[element_type(op.x)][element_type(op.y)];
  FusedFloat8 fused(context, op.y, op.amax);
  context.team.parallel_for(op.x.rows, grain_of_rows(op.x.cols), [&](std::int64_t begin, std::int64_t end) {
    fused.rows(begin, end, [&](std::int64_t first, std::int64_t last) { kernel(args, first, last); });
  });
  fused.finish();
}

}  // namespace titan::cpu
