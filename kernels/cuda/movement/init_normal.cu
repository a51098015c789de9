// Normal values, the bits of the CPU: compiled without contraction. One thread a Philox block, up to four
// neighbours of a row; rows start anywhere in their blocks.
#include "kernels/base/normal.h"
#include "kernels/base/philox.h"
#include "kernels/cuda/base/rows.h"
#include "kernels/cuda/base/run.h"

namespace titan::cuda {
namespace {

constexpr int kWords = 4;  // of a Philox block

struct Arguments {
  std::uint64_t stream;
  double low, width;  ///< the uniform numbers are mapped into [low, low + width]
  float mean, std;
  std::int64_t first, global_cols;  ///< index of y's first element in the parameter; between rows
  std::int64_t rows, cols, pitch;
};

/// Blocks that a row can touch.
__host__ __device__ constexpr std::int64_t blocks_a_row(std::int64_t cols) { return cols / kWords + 2; }

template <class T>
__global__ void __launch_bounds__(kRowThreads) init_normal(const std::uint64_t* seed, T* y, Arguments a) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kRowThreads + threadIdx.x,
                     blocks = blocks_a_row(a.cols), row = index / blocks;
  if (row >= a.rows) return;
  const std::int64_t start = a.first + row * a.global_cols, block = start / kWords + index % blocks;
  const auto words = philox(philox_key(*seed, a.stream), {static_cast<std::uint32_t>(block),
                                                          static_cast<std::uint32_t>(block >> 32), 0, 0});
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    const std::int64_t col = block * kWords + i - start;
    if (col < 0 || col >= a.cols) continue;
    const double u = (words[static_cast<std::size_t>(i)] + 0.5) * 0x1p-32;
    y[row * a.pitch + col] =
        narrow<T>(static_cast<float>(a.mean + a.std * normal_quantile(a.low + a.width * u)));
  }
}

}  // namespace

void run(const InitNormal& op, const Context& context) {
  if (op.y.elements() == 0) return;
  const double low = op.cutoff > 0 ? normal_cdf(-op.cutoff) : 0.0;
  const Arguments arguments{
      op.stream,      low,       1 - 2 * low, op.mean,   op.std, op.first_row * op.global_cols + op.first_col,
      op.global_cols, op.y.rows, op.y.cols,   op.y.pitch};
  const dim3 grid(static_cast<unsigned>(ceil_div(op.y.rows * blocks_a_row(op.y.cols), kRowThreads)));
  with_type(op.y.dtype, [&](auto t) {
    using T = decltype(t);
    launch(init_normal<T>, grid, dim3(kRowThreads), 0, context.stream,
           context.data_as<std::uint64_t>(op.seed), context.data_as<T>(op.y), arguments);
  });
}

}  // namespace titan::cuda
