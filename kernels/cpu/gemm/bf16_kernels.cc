// Panels of bf16 pairs, multiplied by the AVX-512 dot product.
#include "kernels/cpu/base/bf16_pairs.h"
#include "kernels/cpu/gemm/register_tile.h"

namespace titan::cpu::TITAN_ISA {
namespace {

struct PairPanels {
  typedef uint32_t Element;
  typedef __m512i Vector;
  static constexpr int kRows = 8, kVectors = 3, kDepthUnit = 2;
  static constexpr bool kReadsRows = true;
  TITAN_INLINE void store_vector(float* p, vfloat v) { store(p, v); }
  TITAN_INLINE void store_vector(half* p, vfloat v) { store_rounded(p, v); }
  TITAN_INLINE __m512i load_vector(const uint32_t* p) { return _mm512_loadu_si512(p); }
  TITAN_INLINE vfloat multiply_add(uint32_t a, __m512i b, vfloat sum) {
    return TITAN_ISA::multiply_add(a, b, sum);
  }
};
constexpr int kColumns = PairPanels::kVectors * kWidth;
constexpr int64_t kDepth = 256;

/// Sixteen items of one step, of which those from `padded` on do not exist, to where their panels of kPanel
/// items have them.
template <int kPanel>
TITAN_INLINE void store_items(__m512i v, int64_t item, int64_t padded, int64_t steps, int64_t step,
                              uint32_t* out) {
  if (kPanel % 16 == 0) {
    _mm512_storeu_si512(out + item / kPanel * kPanel * steps + step * kPanel + item % kPanel, v);
  } else {
    static_assert(kPanel % 16 == 0 || kPanel == 8, "panels are half a vector or whole vectors");
    uint32_t* const p = out + item * steps + step * 8;
    _mm256_storeu_si256((__m256i*)p, _mm512_castsi512_si256(v));
    if (item + 8 < padded) _mm256_storeu_si256((__m256i*)(p + 8 * steps), _mm512_extracti64x4_epi64(v, 1));
  }
}

/// Rows of the source are steps of k: neighbours along k come from two rows.
template <int kPanel>
void pack_contiguous_items(const half* x, int64_t pitch, int64_t items, int64_t depth, uint32_t* out) {
  const int64_t steps = (depth + 1) / 2, padded = (items + kPanel - 1) / kPanel * kPanel;
  // Steps at a time: whole cache lines of each panel, whose starts share cache sets.
  constexpr int64_t kGroup = 4;
  for (int64_t first = 0; first < steps; first += kGroup) {
    const int64_t end = first + kGroup < steps ? first + kGroup : steps;
    for (int64_t i = 0; i < padded; i += 16)
      for (int64_t step = first; step < end; ++step) {
        const half *even = x + 2 * step * pitch + i, *odd = 2 * step + 1 < depth ? even + pitch : nullptr;
        const __m512i pairs =
            i + 16 <= items && odd != nullptr ? interleave(even, odd) : interleave(even, odd, items - i);
        store_items<kPanel>(pairs, i, padded, steps, step, out);
      }
  }
}

/// Rows of the source are items: pairs along k are elements already, and are transposed sixteen by sixteen.
template <int kPanel>
void pack_contiguous_depth(const half* x, int64_t pitch, int64_t items, int64_t depth, uint32_t* out) {
  const int64_t steps = (depth + 1) / 2, padded = (items + kPanel - 1) / kPanel * kPanel;
  for (int64_t i = 0; i < padded; i += 16)
    for (int64_t step = 0; step < steps; step += 16) {
      const __mmask32 mask = first_lanes(depth - 2 * step);
      __m512i r[16];
#pragma GCC unroll 16
      for (int j = 0; j < 16; ++j)
        r[j] = i + j < items ? _mm512_maskz_loadu_epi16(mask, x + (i + j) * pitch + 2 * step)
                             : _mm512_setzero_si512();
      transpose(r);
      const int64_t left = steps - step;
#pragma GCC unroll 16
      for (int j = 0; j < 16; ++j) {
        if (j >= left) break;
        store_items<kPanel>(r[j], i, padded, steps, step + j, out);
      }
    }
}

template <int kPanel>
void pack(const void* source, int64_t pitch, bool items_contiguous, int64_t items, int64_t depth,
          void* panels) {
  const half* x = (const half*)source;
  if (items_contiguous)
    pack_contiguous_items<kPanel>(x, pitch, items, depth, (uint32_t*)panels);
  else
    pack_contiguous_depth<kPanel>(x, pitch, items, depth, (uint32_t*)panels);
}

}  // namespace

extern const PackedKernels kFromBf16;
const PackedKernels kFromBf16 = {.tile_rows = PairPanels::kRows,
                                 .tile_columns = kColumns,
                                 .depth = kDepth,
                                 .depth_unit = PairPanels::kDepthUnit,
                                 .element_bytes = sizeof(half),
                                 .reads_rows = PairPanels::kReadsRows,
                                 .pack_a = pack<PairPanels::kRows>,
                                 .pack_b = pack<kColumns>,
                                 .multiply_to_f32 = multiply_block<PairPanels, float>,
                                 .multiply_to_bf16 = multiply_block<PairPanels, half>};

}  // namespace titan::cpu::TITAN_ISA
