// Whole vectors and tails with one loop body: for SIMD sources.
#pragma once

#include "kernels/cpu/base/simd.h"
#include "kernels/cpu/elementwise/kernels.h"

namespace titan::cpu::TITAN_ISA {

/// Which lanes of a vector are elements.
struct AllLanes {};
struct FirstLanes {
  int n;
};

/// Calls f(i, lanes) for vectors at i = 0, kWidth, … that cover n elements: AllLanes, then at most one
/// FirstLanes. An element's result does not depend on which of the two it meets.
template <class F>
TITAN_INLINE void for_each_vector(int64_t n, F f) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) f(i, AllLanes{});
  if (i < n) f(i, FirstLanes{(int)(n - i)});
}

template <class T>
TITAN_INLINE vfloat load(const T* p, AllLanes) {
  return load(p);
}
template <class T>
TITAN_INLINE vfloat load(const T* p, FirstLanes lanes) {
  return load_first(p, lanes.n);
}
template <class T>
TITAN_INLINE void store(T* p, vfloat v, AllLanes) {
  store(p, v);
}
template <class T>
TITAN_INLINE void store(T* p, vfloat v, FirstLanes lanes) {
  store_first(p, v, lanes.n);
}

/// v, with `other` in the lanes that are no elements.
TITAN_INLINE vfloat only(vfloat v, AllLanes, float) { return v; }
TITAN_INLINE vfloat only(vfloat v, FirstLanes lanes, float other) {
  for (int i = lanes.n; i < kWidth; ++i) v[i] = other;
  return v;
}

template <class T>
TITAN_INLINE T* row(Rows rows, int64_t r) {
  return (T*)rows.data + r * rows.pitch;
}

/// y = x, converted where the types differ.
template <class X, class Y>
TITAN_INLINE void copy(const X* x, Y* y, int64_t n) {
  for_each_vector(n, [&](int64_t i, auto lanes) { store(y + i, load(x + i, lanes), lanes); });
}
template <class T>
TITAN_INLINE void copy(const T* x, T* y, int64_t n) {
  memcpy(y, x, (size_t)n * sizeof(T));
}

}  // namespace titan::cpu::TITAN_ISA
