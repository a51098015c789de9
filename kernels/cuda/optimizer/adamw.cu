// AdamW in one pass: 16 bytes read and 12 written an element. One thread four elements. Compiled without
// contraction: the bits are those of the host.
#include "kernels/cuda/base/rows.h"
#include "kernels/cuda/base/run.h"

namespace titan::cuda {
namespace {

struct Arguments {
  const float *grad, *scale, *hyper;
  const int* stop;
  float *param, *exp_avg, *exp_avg_sq;
  float beta1, beta2, epsilon, weight_decay;
};

template <int N>
__global__ void __launch_bounds__(kRowThreads) adamw(Arguments a, Rows rows) {
  const Part part = part_of<N>(rows);
  const std::int64_t at = part.col;
  const int count = part.count;
  if (count == 0 || *a.stop != 0) return;
  float g[N], p[N], m[N], v[N];
  load_part(a.grad + at, g, count);
  load_part(a.param + at, p, count);
  load_part(a.exp_avg + at, m, count);
  load_part(a.exp_avg_sq + at, v, count);
  const float scale = *a.scale, learning_rate = a.hyper[0];
  const float keep = 1.0f - learning_rate * a.weight_decay, step = learning_rate / a.hyper[1],
              inv_bias2 = 1.0f / a.hyper[2];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (i >= count) break;
    g[i] *= scale;
    m[i] = m[i] * a.beta1 + g[i] * (1.0f - a.beta1);
    v[i] = v[i] * a.beta2 + g[i] * g[i] * (1.0f - a.beta2);
    p[i] = p[i] * keep - m[i] / (sqrtf(v[i] * inv_bias2) + a.epsilon) * step;
  }
  store_part(a.param + at, p, count);
  store_part(a.exp_avg + at, m, count);
  store_part(a.exp_avg_sq + at, v, count);
}

}  // namespace

void run(const AdamW& op, const Context& context) {
  const Arguments arguments{context.data_as<float>(op.grad),
                            context.data_as<float>(op.scale),
                            context.data_as<float>(op.hyper),
                            context.data_as<int>(op.stop),
                            context.data_as<float>(op.param),
                            context.data_as<float>(op.exp_avg),
                            context.data_as<float>(op.exp_avg_sq),
                            op.beta1,
                            op.beta2,
                            op.epsilon,
                            op.weight_decay};
  const Rows rows{1, op.param.elements()};
  with_parts<kVectorOf<float>>(
      context, rows, {&op.grad, &op.param, &op.exp_avg, &op.exp_avg_sq}, [&](auto n, dim3 grid) {
        launch(adamw<n.value>, grid, dim3(kRowThreads), 0, context.stream, arguments, rows);
      });
}

}  // namespace titan::cuda
