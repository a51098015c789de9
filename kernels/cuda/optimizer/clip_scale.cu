// The norm of all gradients and the scale that clips it: one block, a few hundred numbers.
#include "kernels/cuda/base/run.h"
#include "kernels/cuda/base/vector.h"
#include "kernels/cuda/optimizer/block_sum.h"

namespace titan::cuda {
namespace {

constexpr int kThreads = 256;

struct Arguments {
  const float* square_sums;
  std::int64_t rows, cols, pitch;
  const float* loss;
  float *norm, *scale;
  int* stop;
  float max_norm;
};

__device__ __forceinline__ bool is_finite(float x) { return fabsf(x) <= 3.402823466e38f; }

__global__ void __launch_bounds__(kThreads) clip_scale(Arguments a) {
  TITAN_SHARED(double, warps, kThreads / kWarpSize);
  double total = 0;
  for (std::int64_t i = threadIdx.x; i < a.rows * a.cols; i += kThreads)
    total += a.square_sums[i / a.cols * a.pitch + i % a.cols];
  total = block_sum_f64<kThreads>(total, warps);
  if (threadIdx.x != 0) return;
  const float norm = static_cast<float>(sqrt(total));
  const bool finite = is_finite(norm) && is_finite(*a.loss);
  *a.norm = norm;
  *a.scale = a.max_norm > 0 && finite ? fminf(1.0f, a.max_norm / (norm + 1e-6f)) : 1.0f;
  if (!finite) *a.stop = 1;
}

}  // namespace

void run(const ClipScale& op, const Context& context) {
  const Arguments arguments{context.data_as<float>(op.square_sums),
                            op.square_sums.rows,
                            op.square_sums.cols,
                            op.square_sums.pitch,
                            context.data_as<float>(op.loss),
                            context.data_as<float>(op.norm),
                            context.data_as<float>(op.scale),
                            context.data_as<int>(op.stop),
                            op.max_norm};
  launch(clip_scale, dim3(1), dim3(kThreads), 0, context.stream, arguments);
}

}  // namespace titan::cuda
