#include "kernels/cpu/movement_kernels.h"

#include "kernels/cpu/base/simd.h"

namespace titan::cpu::TITAN_ISA {
namespace {

/// Calls f with the pointer as f32 or bf16.
template <class F>
TITAN_INLINE void typed(const void* p, DType dtype, F f) {
  if (dtype == DType::bf16)
    f((const half*)p);
  else
    f((const float*)p);
}
template <class F>
TITAN_INLINE void typed(void* p, DType dtype, F f) {
  if (dtype == DType::bf16)
    f((half*)p);
  else
    f((float*)p);
}

template <class T, class U>
void convert_row(const T* x, U* y, int64_t n) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(y + i, load(x + i));
  for (; i < n; ++i) store1(y + i, load1(x + i));
}

template <class A, class B, class Y>
void add_row(const A* a, const B* b, Y* y, int64_t n) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(y + i, load(a + i) + load(b + i));
  for (; i < n; ++i) store1(y + i, load1(a + i) + load1(b + i));
}

void convert(const void* x, DType x_dtype, void* y, DType y_dtype, int64_t n) {
  typed(x, x_dtype, [&](auto* from) { typed(y, y_dtype, [&](auto* to) { convert_row(from, to, n); }); });
}

void add(const void* a, DType a_dtype, const void* b, DType b_dtype, void* y, DType y_dtype, int64_t n) {
  typed(a, a_dtype, [&](auto* left) {
    typed(b, b_dtype,
          [&](auto* right) { typed(y, y_dtype, [&](auto* to) { add_row(left, right, to, n); }); });
  });
}

}  // namespace

const MovementKernels kMovementKernels = {.convert = convert, .add = add};

}  // namespace titan::cpu::TITAN_ISA
