// The tile instructions of AMX that the GEMM uses. Eight tiles of 16 rows × 64 bytes.
#pragma once

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

namespace titan::cpu::amx {

/// Gives the calling thread tiles of full size. Whoever used them before (oneDNN) configures again by itself.
static inline void configure_tiles() {
  struct alignas(64) {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config;
  memset(&config, 0, sizeof config);
  config.palette = 1;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = 64;
    config.rows[i] = 16;
  }
  _tile_loadconfig(&config);
}
static inline void release_tiles() { _tile_release(); }

}  // namespace titan::cpu::amx

// Macros, because tiles are named in the text of instructions. TITAN_MULTIPLY_TILES: tile c [16, 16] f32 +=
// a [16, 32] bf16 · b, of which row p holds rows 2p and 2p + 1 of the factor as pairs.
#define TITAN_ZERO_TILE(tile) _tile_zero(tile)
#define TITAN_LOAD_TILE(tile, from, pitch_bytes) _tile_loadd(tile, from, pitch_bytes)
#define TITAN_STORE_TILE(tile, to, pitch_bytes) _tile_stored(tile, to, pitch_bytes)
#define TITAN_MULTIPLY_TILES(c, a, b) _tile_dpbf16ps(c, a, b)
