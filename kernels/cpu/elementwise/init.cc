#include "kernels/base/bf16.h"
#include "kernels/base/normal.h"
#include "kernels/base/philox.h"
#include "kernels/cpu/base/run.h"
#include "kernels/cpu/elementwise/dispatch.h"

namespace titan::cpu {
namespace {

/// The uniform numbers of one stream: number i comes from word i % 4 of Philox block i / 4.
class Uniform {
 public:
  explicit Uniform(PhiloxKey key) : key_(key) {}
  /// In (0, 1).
  double operator()(std::uint64_t i) {
    if (i / 4 != block_) {
      block_ = i / 4;
      words_ =
          philox(key_, {static_cast<std::uint32_t>(block_), static_cast<std::uint32_t>(block_ >> 32), 0, 0});
    }
    return (words_[i % 4] + 0.5) * 0x1p-32;
  }

 private:
  PhiloxKey key_;
  std::uint64_t block_ = ~std::uint64_t{0};
  std::array<std::uint32_t, 4> words_{};
};

void store(float* to, float x) { *to = x; }
void store(bf16* to, float x) { *to = to_bf16(x); }

/// Elements [begin, end) of y, row by row. Truncation at ±cutoff maps the uniform numbers into [Φ(−cutoff),
/// Φ(cutoff)].
template <class T>
void fill(const InitNormal& op, PhiloxKey key, T* y, std::int64_t begin, std::int64_t end) {
  const double low = op.cutoff > 0 ? normal_cdf(-op.cutoff) : 0.0, width = 1 - 2 * low;
  Uniform uniform(key);
  while (begin < end) {
    const std::int64_t r = begin / op.y.cols, first = begin % op.y.cols;
    const std::int64_t last = std::min(op.y.cols, first + end - begin);
    const std::int64_t row_index = (op.first_row + r) * op.global_cols + op.first_col;
    for (std::int64_t c = first; c < last; ++c) {
      const double u = uniform(static_cast<std::uint64_t>(row_index + c));
      store(y + r * op.y.pitch + c, static_cast<float>(op.mean + op.std * normal_quantile(low + width * u)));
    }
    begin += last - first;
  }
}

}  // namespace

void run(const InitNormal& op, const Context& context) {
  const PhiloxKey key = philox_key(*context.data_as<std::uint64_t>(op.seed), op.stream);
  const bool is_f32 = element_type(op.y) == kF32;
  context.team.parallel_for(op.y.elements(), 4096, [&](std::int64_t begin, std::int64_t end) {
    if (is_f32)
      fill(op, key, context.data_as<float>(op.y), begin, end);
    else
      fill(op, key, context.data_as<bf16>(op.y), begin, end);
  });
}

}  // namespace titan::cpu
