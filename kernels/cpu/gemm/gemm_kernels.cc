#include "kernels/cpu/gemm/gemm_kernels.h"

#include "kernels/cpu/base/simd.h"
#include "kernels/cpu/gemm/register_tile.h"

namespace titan::cpu::TITAN_ISA {
namespace {

constexpr int64_t kDepth = kWidth == 16 ? 192 : 256;

/// kVectors of B and one broadcast of A fit the 16 (32 with AVX-512) vector registers beside the sums, and
/// there are more sums in flight than an FMA has cycles of latency.
struct FloatPanels {
  typedef float Element;
  typedef vfloat Vector;
  static constexpr int kVectors = kWidth == 4 ? 2 : 3, kRows = kWidth == 16 ? 8 : 4, kDepthUnit = 1;
  static constexpr bool kReadsRows = false;
  TITAN_INLINE vfloat load_vector(const float* p) { return load(p); }
  template <class T>
  TITAN_INLINE void store_vector(T* p, vfloat v) {
    store(p, v);
  }
  TITAN_INLINE vfloat multiply_add(float a, vfloat b, vfloat sum) { return sum + broadcast(a) * b; }
};
constexpr int kRows = FloatPanels::kRows, kColumns = FloatPanels::kVectors * kWidth;

// --- Packing, in 4×4 blocks on every instruction set: panel widths are multiples of 4 ---------------------

typedef float quad __attribute__((vector_size(16)));
typedef int32_t quad_index __attribute__((vector_size(16)));

TITAN_INLINE quad load_quad(const float* p) {
  quad v;
  memcpy(&v, p, sizeof v);
  return v;
}
TITAN_INLINE quad load_quad(const half* p) {
  typedef uint16_t quad_half __attribute__((vector_size(8)));
  typedef uint32_t quad_bits __attribute__((vector_size(16)));
  quad_half h;
  memcpy(&h, p, sizeof h);
  return (quad)(__builtin_convertvector(h, quad_bits) << 16);
}
TITAN_INLINE void store_quad(float* p, quad v) { memcpy(p, &v, sizeof v); }

/// Full panels, four rows of the source at a time: reads run along memory, writes fill whole cache lines.
template <int kPanel, class T>
void pack_contiguous_items(const T* x, int64_t pitch, int64_t panels, int64_t depth, float* out) {
  for (int64_t first = 0; first < depth; first += 4)
    for (int64_t p = 0; p < panels; ++p)
      for (int64_t d = first; d < depth && d < first + 4; ++d)
        for (int i = 0; i < kPanel; i += 4)
          store_quad(out + (p * depth + d) * kPanel + i, load_quad(x + d * pitch + p * kPanel + i));
}

template <int kPanel, class T>
void pack_last_items(const T* x, int64_t pitch, int64_t items, int64_t depth, float* out) {
  for (int64_t d = 0; d < depth; ++d)
    for (int i = 0; i < kPanel; ++i) out[d * kPanel + i] = i < items ? load1(x + d * pitch + i) : 0.0f;
}

/// 4 items × depth, item-major in memory, into column i of the panel.
template <int kPanel, class T>
TITAN_INLINE void transpose_four(const T* x, int64_t pitch, int64_t depth, float* out) {
  int64_t d = 0;
  for (; d + 4 <= depth; d += 4) {
    const quad r0 = load_quad(x + d), r1 = load_quad(x + pitch + d), r2 = load_quad(x + 2 * pitch + d),
               r3 = load_quad(x + 3 * pitch + d);
    const quad lo01 = __builtin_shuffle(r0, r1, quad_index{0, 4, 1, 5}),
               hi01 = __builtin_shuffle(r0, r1, quad_index{2, 6, 3, 7}),
               lo23 = __builtin_shuffle(r2, r3, quad_index{0, 4, 1, 5}),
               hi23 = __builtin_shuffle(r2, r3, quad_index{2, 6, 3, 7});
    float* o = out + d * kPanel;
    store_quad(o, __builtin_shuffle(lo01, lo23, quad_index{0, 1, 4, 5}));
    store_quad(o + kPanel, __builtin_shuffle(lo01, lo23, quad_index{2, 3, 6, 7}));
    store_quad(o + 2 * kPanel, __builtin_shuffle(hi01, hi23, quad_index{0, 1, 4, 5}));
    store_quad(o + 3 * kPanel, __builtin_shuffle(hi01, hi23, quad_index{2, 3, 6, 7}));
  }
  for (; d < depth; ++d)
    for (int i = 0; i < 4; ++i) out[d * kPanel + i] = load1(x + i * pitch + d);
}

template <int kPanel, class T>
void pack_contiguous_depth(const T* x, int64_t pitch, int64_t items, int64_t depth, float* out) {
  int i = 0;
  for (; i + 4 <= items; i += 4) transpose_four<kPanel>(x + i * pitch, pitch, depth, out + i);
  for (; i < kPanel; ++i)
    for (int64_t d = 0; d < depth; ++d) out[d * kPanel + i] = i < items ? load1(x + i * pitch + d) : 0.0f;
}

template <int kPanel, class T>
void pack(const void* source, int64_t pitch, bool items_contiguous, int64_t items, int64_t depth,
          void* panels) {
  float* const out = static_cast<float*>(panels);
  const T* x = static_cast<const T*>(source);
  if (items_contiguous) {
    const int64_t full = items / kPanel * kPanel;
    pack_contiguous_items<kPanel>(x, pitch, full / kPanel, depth, out);
    if (full < items) pack_last_items<kPanel>(x + full, pitch, items - full, depth, out + full * depth);
    return;
  }
  for (int64_t i = 0; i < items; i += kPanel)
    pack_contiguous_depth<kPanel>(x + i * pitch, pitch, items - i < kPanel ? items - i : kPanel, depth,
                                  out + i * depth);
}

// --- Few rows ---------------------------------------------------------------------------------------------

template <int kM, int kN, class T, class U>
TITAN_INLINE void dot_block(int64_t k, const T* a, int64_t a_pitch, const T* b, int64_t b_pitch, U* c,
                            int64_t c_pitch, bool add) {
  vfloat partial[kM][kN] = {};
  auto step = [&](auto load_at) __attribute__((always_inline)) {
    vfloat y[kN];
#pragma GCC unroll 4
    for (int j = 0; j < kN; ++j) y[j] = load_at(b + j * b_pitch);
#pragma GCC unroll 4
    for (int i = 0; i < kM; ++i) {
      const vfloat x = load_at(a + i * a_pitch);
#pragma GCC unroll 4
      for (int j = 0; j < kN; ++j) partial[i][j] += x * y[j];
    }
  };
  int64_t d = 0;
  for (; d + kWidth <= k; d += kWidth) step([d](const T* row) { return load(row + d); });
  if (const int rest = (int)(k - d); rest > 0)
    step([d, rest](const T* row) { return load_first(row + d, rest); });
  for (int i = 0; i < kM; ++i)
    for (int j = 0; j < kN; ++j) {
      U* p = c + i * c_pitch + j;
      const float dot = sum(partial[i][j]);
      store1(p, add ? load1(p) + dot : dot);
    }
}

template <int kM, int kN, class T, class U>
void dot_rows(int64_t columns, int64_t k, const T* a, int64_t a_pitch, const T* b, int64_t b_pitch, U* c,
              int64_t c_pitch, bool add) {
  int64_t j = 0;
  for (; j + kN <= columns; j += kN)
    dot_block<kM, kN>(k, a, a_pitch, b + j * b_pitch, b_pitch, c + j, c_pitch, add);
  for (; j < columns; ++j) dot_block<kM, 1>(k, a, a_pitch, b + j * b_pitch, b_pitch, c + j, c_pitch, add);
}

template <class T, class U>
void dots(int64_t rows, int64_t columns, int64_t k, const void* a, int64_t a_pitch, const void* b,
          int64_t b_pitch, void* c, int64_t c_pitch, bool add) {
  constexpr int64_t kBlock = 8;  // rows of b that stay in the cache while all rows of a pass
  for (int64_t j = 0; j < columns; j += kBlock) {
    const int64_t n = columns - j < kBlock ? columns - j : kBlock;
    const T* y = static_cast<const T*>(b) + j * b_pitch;
    for (int64_t i = 0; i < rows;) {
      const T* x = static_cast<const T*>(a) + i * a_pitch;
      U* out = static_cast<U*>(c) + i * c_pitch + j;
      if (rows - i >= 4) {
        dot_rows<4, 2>(n, k, x, a_pitch, y, b_pitch, out, c_pitch, add);
        i += 4;
      } else if (rows - i >= 2) {
        dot_rows<2, 4>(n, k, x, a_pitch, y, b_pitch, out, c_pitch, add);
        i += 2;
      } else {
        dot_rows<1, 4>(n, k, x, a_pitch, y, b_pitch, out, c_pitch, add);
        i += 1;
      }
    }
  }
}

}  // namespace

extern const PackedKernels kFromF32, kFromBf16;
extern const DotKernels kDots;

template <class T>
constexpr PackedKernels packed_from() {
  return {.tile_rows = kRows,
          .tile_columns = kColumns,
          .depth = kDepth,
          .depth_unit = 1,
          .element_bytes = sizeof(float),
          .reads_rows = FloatPanels::kReadsRows,
          .pack_a = pack<kRows, T>,
          .pack_b = pack<kColumns, T>,
          .multiply_to_f32 = multiply_block<FloatPanels, float>,
          .multiply_to_bf16 = multiply_block<FloatPanels, half>};
}
const PackedKernels kFromF32 = packed_from<float>();
const PackedKernels kFromBf16 = packed_from<half>();
const DotKernels kDots = {dots<float, float>, dots<half, float>, dots<half, half>};

}  // namespace titan::cpu::TITAN_ISA
