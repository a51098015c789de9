#include "kernels/cpu/elementwise/lanes.h"

namespace titan::cpu::TITAN_ISA {
namespace {

template <class X, class Y>
void rope(const RopeArgs& a, int64_t begin, int64_t end) {
  const int64_t half_dim = a.head_dim / 2;
  const float sign = a.inverse ? -1.0f : 1.0f;
  const bool in_place = a.x.data == a.y.data;
  for (int64_t r = begin; r < end; ++r) {
    const X* x = row<X>(a.x, r);
    Y* y = row<Y>(a.y, r);
    const int32_t position = *row<int32_t>(a.positions, r);
    const int heads = position < 0 ? 0 : a.rotated_heads;
    const float *cosine = row<float>(a.table, position < 0 ? 0 : position), *sine = cosine + half_dim;
    for (int h = 0; h < heads; ++h, x += a.head_dim, y += a.head_dim)
      for_each_vector(half_dim, [&](int64_t i, auto lanes) {
        const vfloat c = load(cosine + i, lanes), s = sign * load(sine + i, lanes);
        const vfloat low = load(x + i, lanes), high = load(x + half_dim + i, lanes);
        store(y + i, low * c - high * s, lanes);
        store(y + half_dim + i, high * c + low * s, lanes);
      });
    if (!in_place) copy(x, y, a.cols - (int64_t)heads * a.head_dim);
  }
}

}  // namespace

const RopeKernels kRope = {{{rope<float, float>, rope<float, half>}, {rope<half, float>, rope<half, half>}}};

}  // namespace titan::cpu::TITAN_ISA
