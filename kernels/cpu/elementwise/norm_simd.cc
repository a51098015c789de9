#include "kernels/cpu/elementwise/lanes.h"

namespace titan::cpu::TITAN_ISA {
namespace {

template <class T>
void rms_norm(const RmsNormArgs& a, int64_t begin, int64_t end) {
  const T* weight = row<T>(a.weight, 0);
  for (int64_t r = begin; r < end; ++r) {
    const T* x = row<T>(a.x, r);
    vfloat squares{};
    if (a.delta.data) {
      const T* delta = row<T>(a.delta, r);
      T* total = row<T>(a.sum, r);
      for_each_vector(a.cols, [&](int64_t i, auto lanes) {
        store(total + i, load(x + i, lanes) + load(delta + i, lanes), lanes);
        const vfloat v = load(total + i, lanes);  // as rounded: what the next layer reads
        squares += v * v;
      });
      x = total;
    } else {
      for_each_vector(a.cols, [&](int64_t i, auto lanes) {
        const vfloat v = load(x + i, lanes);
        squares += v * v;
      });
    }
    const float inv_rms = 1.0f / __builtin_sqrtf(sum(squares) / (float)a.cols + a.epsilon);
    *row<float>(a.inv_rms, r) = inv_rms;
    T* y = row<T>(a.y, r);
    for_each_vector(a.cols, [&](int64_t i, auto lanes) {
      store(y + i, load(x + i, lanes) * inv_rms * load(weight + i, lanes), lanes);
    });
  }
}

template <class T>
void rms_norm_grad(const RmsNormGradArgs& a, float* dweight, int64_t begin, int64_t end) {
  const T* weight = row<T>(a.weight, 0);
  for (int64_t r = begin; r < end; ++r) {
    const T *dy = row<T>(a.dy, r), *x = row<T>(a.x, r);
    const T* dresidual = a.dresidual.data ? row<T>(a.dresidual, r) : nullptr;
    T* dx = row<T>(a.dx, r);
    const float inv_rms = *row<float>(a.inv_rms, r);
    vfloat dot{};
    for_each_vector(a.cols, [&](int64_t i, auto lanes) {
      dot += load(dy + i, lanes) * load(weight + i, lanes) * load(x + i, lanes);
    });
    const float along_x = sum(dot) / (float)a.cols * inv_rms * inv_rms;
    for_each_vector(a.cols, [&](int64_t i, auto lanes) {
      const vfloat g = load(dy + i, lanes), v = load(x + i, lanes);
      vfloat d = (g * load(weight + i, lanes) - v * along_x) * inv_rms;
      if (dresidual) d += load(dresidual + i, lanes);
      store(dweight + i, load(dweight + i, lanes) + g * v * inv_rms, lanes);
      store(dx + i, d, lanes);
    });
  }
}

void sum_rows(Rows x, int64_t rows, float* y, bool add, int64_t begin, int64_t end) {
  for_each_vector(end - begin, [&](int64_t i, auto lanes) {
    vfloat total = add ? load(y + begin + i, lanes) : vfloat{};
    for (int64_t r = 0; r < rows; ++r) total += load(row<const float>(x, r) + begin + i, lanes);
    store(y + begin + i, total, lanes);
  });
}

}  // namespace

const NormKernels kNorm = {
    {rms_norm<float>, rms_norm<half>}, {rms_norm_grad<float>, rms_norm_grad<half>}, sum_rows};

}  // namespace titan::cpu::TITAN_ISA
