// Tiles of AMX in ordinary memory, for machines without them.
#pragma once

#include <stdint.h>
#include <string.h>

namespace titan::cpu::amx {

/// A thread's tiles. Using them without having configured them is a fault, as on the processor.
struct EmulatedTiles {
  bool configured = false;
  alignas(64) unsigned char tile[8][16][64];
};
inline thread_local EmulatedTiles emulated_tiles;

static inline void configure_tiles() {
  emulated_tiles.configured = true;
  memset(emulated_tiles.tile, 0xff, sizeof emulated_tiles.tile);  // NaN: nothing may rely on old contents
}
static inline void release_tiles() { emulated_tiles.configured = false; }

static inline unsigned char (&use_tile(int i))[16][64] {
  if (!emulated_tiles.configured) __builtin_trap();
  return emulated_tiles.tile[i];
}

template <int kTile>
static inline void zero_tile() {
  memset(use_tile(kTile), 0, 1024);
}
template <int kTile>
static inline void load_tile(const void* from, int64_t pitch_bytes) {
  for (int r = 0; r < 16; ++r) memcpy(use_tile(kTile)[r], (const char*)from + r * pitch_bytes, 64);
}
template <int kTile>
static inline void store_tile(void* to, int64_t pitch_bytes) {
  for (int r = 0; r < 16; ++r) memcpy((char*)to + r * pitch_bytes, use_tile(kTile)[r], 64);
}

/// Value `i` of a row of bf16.
static inline float bf16_at(const unsigned char* row, int i) {
  uint16_t h;
  memcpy(&h, row + 2 * i, 2);
  const uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}

template <int kC, int kA, int kB>
static inline void multiply_tiles() {
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 16; ++n) {
      float even = 0, odd = 0, c;
      for (int p = 0; p < 16; ++p) {
        even += bf16_at(use_tile(kA)[m], 2 * p) * bf16_at(use_tile(kB)[p], 2 * n);
        odd += bf16_at(use_tile(kA)[m], 2 * p + 1) * bf16_at(use_tile(kB)[p], 2 * n + 1);
      }
      memcpy(&c, use_tile(kC)[m] + 4 * n, 4);
      c += even + odd;
      memcpy(use_tile(kC)[m] + 4 * n, &c, 4);
    }
}

}  // namespace titan::cpu::amx

#define TITAN_ZERO_TILE(tile) zero_tile<tile>()
#define TITAN_LOAD_TILE(tile, from, pitch_bytes) load_tile<tile>(from, pitch_bytes)
#define TITAN_STORE_TILE(tile, to, pitch_bytes) store_tile<tile>(to, pitch_bytes)
#define TITAN_MULTIPLY_TILES(c, a, b) multiply_tiles<c, a, b>()
