#include "kernels/cpu/elementwise/lanes.h"

namespace titan::cpu::TITAN_ISA {
namespace {

TITAN_INLINE vfloat sigmoid(vfloat x) { return 1.0f / (1.0f + exp(-x)); }

template <class T>
void swiglu(const SwiGluArgs& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const T *gate = row<T>(a.gate_up, r), *up = gate + a.cols;
    T* y = row<T>(a.y, r);
    for_each_vector(a.cols, [&](int64_t i, auto lanes) {
      const vfloat g = load(gate + i, lanes);
      store(y + i, g * sigmoid(g) * load(up + i, lanes), lanes);
    });
  }
}

template <class T>
void swiglu_grad(const SwiGluGradArgs& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const T *dy = row<T>(a.dy, r), *gate = row<T>(a.gate_up, r), *up = gate + a.cols;
    T *dgate = row<T>(a.dgate_up, r), *dup = dgate + a.cols;
    for_each_vector(a.cols, [&](int64_t i, auto lanes) {
      const vfloat d = load(dy + i, lanes), g = load(gate + i, lanes), u = load(up + i, lanes);
      const vfloat s = sigmoid(g);
      store(dgate + i, d * u * s * (1.0f + g * (1.0f - s)), lanes);
      store(dup + i, d * g * s, lanes);
    });
  }
}

}  // namespace

const SwiGluKernels kSwiGlu = {{swiglu<float>, swiglu<half>}, {swiglu_grad<float>, swiglu_grad<half>}};

}  // namespace titan::cpu::TITAN_ISA
