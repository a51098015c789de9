#include "kernels/cpu/elementwise/lanes.h"

namespace titan::cpu::TITAN_ISA {
namespace {

/// f32 sums over short pieces, f64 over the pieces: the error does not grow with n.
double square_sum(const float* x, int64_t n) {
  constexpr int64_t kPiece = 4096;
  double total = 0;
  for (int64_t start = 0; start < n; start += kPiece) {
    vfloat squares{};
    for_each_vector(n - start < kPiece ? n - start : kPiece, [&](int64_t i, auto lanes) {
      const vfloat v = load(x + start + i, lanes);
      squares += v * v;
    });
    total += sum(squares);
  }
  return total;
}

void adamw(const AdamWArgs& a, int64_t begin, int64_t end) {
  const float keep = 1.0f - a.learning_rate * a.weight_decay, step = a.learning_rate / a.bias1,
              inv_bias2 = 1.0f / a.bias2;
  const float* grad = a.grad + begin;
  float *param = a.param + begin, *exp_avg = a.exp_avg + begin, *exp_avg_sq = a.exp_avg_sq + begin;
  for_each_vector(end - begin, [&](int64_t i, auto lanes) {
    const vfloat g = load(grad + i, lanes) * a.grad_scale;
    const vfloat m = load(exp_avg + i, lanes) * a.beta1 + g * (1.0f - a.beta1);
    const vfloat v = load(exp_avg_sq + i, lanes) * a.beta2 + g * g * (1.0f - a.beta2);
    const vfloat update = m / (sqrt(v * inv_bias2) + a.epsilon);
    store(exp_avg + i, m, lanes);
    store(exp_avg_sq + i, v, lanes);
    store(param + i, load(param + i, lanes) * keep - update * step, lanes);
  });
}

}  // namespace

const OptimizerKernels kOptimizer = {square_sum, adamw};

}  // namespace titan::cpu::TITAN_ISA
