// Panels of tiles, multiplied by AMX. A panel is 32 rows of A or 32 columns of B; of every 32 steps of k it
// holds two tiles of sixteen: of A as rows of 32 values, of B as rows of sixteen pairs. Two tiles of A by two
// of B keep four tiles of sums busy.
#include "kernels/cpu/base/bf16_pairs.h"
#include "kernels/cpu/gemm/gemm_kernels.h"

#ifndef TITAN_AMX_TILES  // tests replace the instructions
#define TITAN_AMX_TILES "kernels/cpu/gemm/amx_tiles.h"
#endif
#include TITAN_AMX_TILES

namespace titan::cpu::TITAN_ISA {
namespace {

constexpr int kPanel = 32, kStep = 32, kTileBytes = 1024, kTileItems = 16;
constexpr int64_t kDepth = 256;

int64_t steps_of(int64_t depth) { return (depth + kStep - 1) / kStep; }

/// Packs tiles of kRows: rows of values, else rows of pairs.
template <bool kRows>
void pack(const void* source, int64_t pitch, bool items_contiguous, int64_t items, int64_t depth,
          void* panels) {
  const half* x = (const half*)source;
  const int64_t padded = (items + kPanel - 1) / kPanel * kPanel, steps = steps_of(depth);
  for (int64_t i = 0; i < padded; i += kTileItems)
    for (int64_t step = 0; step < steps; ++step) {
      __m512i r[16];
      const int64_t d = step * kStep;
      if (items_contiguous) {
#pragma GCC unroll 16
        for (int p = 0; p < 16; ++p) {
          const half* even = x + (d + 2 * p) * pitch + i;
          r[p] = d + 2 * p >= depth
                     ? _mm512_setzero_si512()
                     : interleave(even, d + 2 * p + 1 < depth ? even + pitch : nullptr, items - i);
        }
      } else {
#pragma GCC unroll 16
        for (int j = 0; j < 16; ++j)
          r[j] = i + j < items ? _mm512_maskz_loadu_epi16(first_lanes(depth - d), x + (i + j) * pitch + d)
                               : _mm512_setzero_si512();
      }
      if (items_contiguous == kRows) transpose(r);
      char* const tile =
          (char*)panels + (i / kPanel * steps + step) * 2 * kTileBytes + i % kPanel / 16 * kTileBytes;
#pragma GCC unroll 16
      for (int j = 0; j < 16; ++j) _mm512_storeu_si512(tile + 64 * j, r[j]);
    }
}

/// Columns are a multiple of the vector width.
void scale(float* sums, const GemmBlock& x, int64_t row, int64_t column) {
  const GemmScaling& by = x.scaling;
  for (int64_t i = 0; i < kPanel && row + i < x.rows; ++i)
    for (int64_t j = 0; j < kPanel && column + j < x.columns; j += kWidth) {
      float* const p = sums + i * kPanel + j;
      const vfloat columns = by.each ? load(by.columns + column + j) : broadcast(by.columns[0]);
      store(p, load(p) * by.rows[by.each ? row + i : 0] * columns);
    }
}

/// Sums of 32 × 32, row-major, to c.
template <class Out>
void write(const float* sums, const GemmBlock& x, int64_t row, int64_t column) {
  Out* c = (Out*)x.c + row * x.c_pitch + column;
  const int64_t rows = x.rows - row < kPanel ? x.rows - row : kPanel;
  const int64_t columns = x.columns - column < kPanel ? x.columns - column : kPanel;
  for (int64_t i = 0; i < rows; ++i, c += x.c_pitch, sums += kPanel) {
    if (columns == kPanel) {
#pragma GCC unroll 2
      for (int j = 0; j < kPanel; j += kWidth)
        store(c + j, x.add ? load(c + j) + load(sums + j) : load(sums + j));
    } else {
      for (int64_t j = 0; j < columns; ++j) store1(c + j, x.add ? load1(c + j) + sums[j] : sums[j]);
    }
  }
}

template <class Out>
void multiply_panels(const GemmBlock& x, int64_t row, int64_t column) {
  const int64_t steps = steps_of(x.depth), pitch = x.sums_pitch * (int64_t)sizeof(float);
  const char* a = (const char*)x.a + row / kPanel * steps * 2 * kTileBytes;
  const char* b = (const char*)x.b + column / kPanel * steps * 2 * kTileBytes;
  float* const sums = x.sums + row * x.sums_pitch + column;
  float* const lower = sums + 16 * x.sums_pitch;
  if (x.first) {
    TITAN_ZERO_TILE(0);
    TITAN_ZERO_TILE(1);
    TITAN_ZERO_TILE(2);
    TITAN_ZERO_TILE(3);
  } else {
    TITAN_LOAD_TILE(0, sums, pitch);
    TITAN_LOAD_TILE(1, sums + 16, pitch);
    TITAN_LOAD_TILE(2, lower, pitch);
    TITAN_LOAD_TILE(3, lower + 16, pitch);
  }
  for (int64_t s = 0; s < steps; ++s, a += 2 * kTileBytes, b += 2 * kTileBytes) {
    TITAN_LOAD_TILE(4, a, 64);
    TITAN_LOAD_TILE(6, b, 64);
    TITAN_MULTIPLY_TILES(0, 4, 6);
    TITAN_LOAD_TILE(7, b + kTileBytes, 64);
    TITAN_MULTIPLY_TILES(1, 4, 7);
    TITAN_LOAD_TILE(5, a + kTileBytes, 64);
    TITAN_MULTIPLY_TILES(2, 5, 6);
    TITAN_MULTIPLY_TILES(3, 5, 7);
  }
  if (!x.last) {
    TITAN_STORE_TILE(0, sums, pitch);
    TITAN_STORE_TILE(1, sums + 16, pitch);
    TITAN_STORE_TILE(2, lower, pitch);
    TITAN_STORE_TILE(3, lower + 16, pitch);
    return;
  }
  alignas(64) float result[kPanel * kPanel];
  constexpr int64_t kPitch = kPanel * sizeof(float);
  TITAN_STORE_TILE(0, result, kPitch);
  TITAN_STORE_TILE(1, result + 16, kPitch);
  TITAN_STORE_TILE(2, result + 16 * kPanel, kPitch);
  TITAN_STORE_TILE(3, result + 16 * kPanel + 16, kPitch);
  if (x.scaling.rows != nullptr) scale(result, x, row, column);
  write<Out>(result, x, row, column);
}

template <class Out>
void multiply(const GemmBlock& x) {
  configure_tiles();
  for (int64_t column = 0; column < x.columns; column += kPanel)
    for (int64_t row = 0; row < x.rows; row += kPanel) multiply_panels<Out>(x, row, column);
  release_tiles();
}

}  // namespace

extern const PackedKernels kFromBf16;
const PackedKernels kFromBf16 = {.tile_rows = kPanel,
                                 .tile_columns = kPanel,
                                 .depth = kDepth,
                                 .depth_unit = kStep,
                                 .element_bytes = sizeof(half),
                                 .reads_rows = false,
                                 .pack_a = pack<true>,
                                 .pack_b = pack<false>,
                                 .multiply_to_f32 = multiply<float>,
                                 .multiply_to_bf16 = multiply<half>};

}  // namespace titan::cpu::TITAN_ISA
