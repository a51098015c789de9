// The arithmetic of kernels/base/float8.h, a vector at a time.
#include "kernels/cpu/elementwise/lanes.h"

namespace titan::cpu::TITAN_ISA {
namespace {

typedef uint8_t vbyte __attribute__((vector_size(TITAN_SIMD_WIDTH)));

TITAN_INLINE vint magnitude(vfloat v) { return (vint)v & 0x7fffffff; }
TITAN_INLINE vint larger(vint a, vint b) { return a > b ? a : b; }

template <class T>
uint32_t amax(const void* x, int64_t n, uint32_t most) {
  const T* const from = (const T*)x;
  vint largest{};
  for_each_vector(
      n, [&](int64_t i, auto lanes) { largest = larger(largest, magnitude(load(from + i, lanes))); });
  for (int i = 0; i < kWidth; ++i)
    if ((uint32_t)largest[i] > most) most = (uint32_t)largest[i];
  return most;
}

template <class T>
void column_amax(const void* x, int64_t n, uint32_t* most) {
  const T* const from = (const T*)x;
  float* const bits = (float*)most;
  for_each_vector(n, [&](int64_t i, auto lanes) {
    const vint before = (vint)load(bits + i, lanes);
    store(bits + i, (vfloat)larger(before, magnitude(load(from + i, lanes))), lanes);
  });
}

template <int kFraction, int kBias, int kLargest>
struct Format {
  static constexpr int kShift = 23 - kFraction;
  static constexpr int32_t kNan = 0x7f, kInfinity = 0x7f800000;

  /// Codes of the 8-bit format: see float8_bits.
  TITAN_INLINE vint codes(vfloat v) {
    const vint sign = ((vint)v >> 24) & 0x80, whole = magnitude(v);
    const vint u = whole < kLargest ? whole : broadcast((int32_t)kLargest);
    constexpr int32_t kMagic = (127 + 1 - kBias - kFraction + 23) << 23;
    const vint small = (vint)((vfloat)u + (vfloat)broadcast((int32_t)kMagic)) - kMagic;
    const vint rounded = u + ((1 << (kShift - 1)) - 1) + ((u >> kShift) & 1);
    const vint normal = (rounded >> kShift) - ((127 - kBias) << kFraction);
    const vint code = (u < ((128 - kBias) << 23) ? small : normal) | sign;
    return whole > kInfinity ? broadcast((int32_t)kNan) : code;
  }
};
typedef Format<3, 7, 0x43e00000> E4m3;   // 448
typedef Format<2, 15, 0x47600000> E5m2;  // 57344

TITAN_INLINE void store_bytes(uint8_t* p, vint codes, AllLanes) {
  const vbyte bytes = __builtin_convertvector(codes, vbyte);
  memcpy(p, &bytes, sizeof bytes);
}
TITAN_INLINE void store_bytes(uint8_t* p, vint codes, FirstLanes lanes) {
  const vbyte bytes = __builtin_convertvector(codes, vbyte);
  memcpy(p, &bytes, (size_t)lanes.n);
}

template <class T, class Float8>
void convert(const void* x, const float* factors, bool one, uint8_t* y, int64_t n) {
  const T* const from = (const T*)x;
  const vfloat factor = broadcast(factors[0]);
  for_each_vector(n, [&](int64_t i, auto lanes) {
    const vfloat scaled = load(from + i, lanes) * (one ? factor : load(factors + i, lanes));
    store_bytes(y + i, Float8::codes(scaled), lanes);
  });
}

}  // namespace

const QuantizeKernels kQuantize = {
    {amax<float>, amax<half>},
    {column_amax<float>, column_amax<half>},
    {{convert<float, E4m3>, convert<float, E5m2>}, {convert<half, E4m3>, convert<half, E5m2>}}};

}  // namespace titan::cpu::TITAN_ISA
