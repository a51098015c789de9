#include "kernels/cuda/host/matrix.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace titan::cuda::host {
namespace {

constexpr std::uint32_t kAllLanes = 0xffffffffu;

struct Load {
  unsigned* r;
  const void* row;
};

void load_all(void* const* lanes, bool transposed) {
  std::uint16_t elements[4][8][8];
  for (int l = 0; l < kWarp; ++l)
    std::memcpy(elements[l / 8][l % 8], static_cast<const Load*>(lanes[l])->row, sizeof elements[0][0]);
  for (int l = 0; l < kWarp; ++l)
    for (int i = 0; i < 4; ++i) {
      const int g = l / 4, t = l % 4;
      const auto& m = elements[i];
      const unsigned low = transposed ? m[2 * t][g] : m[g][2 * t];
      const unsigned high = transposed ? m[2 * t + 1][g] : m[g][2 * t + 1];
      static_cast<const Load*>(lanes[l])->r[i] = low | high << 16;
    }
}

struct Multiply {
  float* d;
  const unsigned *a, *b;
};

float low(unsigned pair) { return std::bit_cast<float>(pair << 16); }
float high(unsigned pair) { return std::bit_cast<float>(pair & 0xffff0000u); }

void multiply_all(void* const* lanes) {
  float a[16][16], b[16][8], d[16][8];
  for (int l = 0; l < kWarp; ++l) {
    const Multiply& m = *static_cast<const Multiply*>(lanes[l]);
    const int g = l / 4, t = 2 * (l % 4);
    for (int i = 0; i < 4; ++i) {
      float* const at = &a[g + i % 2 * 8][t + i / 2 * 8];
      at[0] = low(m.a[i]), at[1] = high(m.a[i]);
    }
    for (int i = 0; i < 2; ++i) b[t + 8 * i][g] = low(m.b[i]), b[t + 8 * i + 1][g] = high(m.b[i]);
    for (int i = 0; i < 4; ++i) d[g + i / 2 * 8][t + i % 2] = m.d[i];
  }
  for (int row = 0; row < 16; ++row) {
    float sum[8];
    std::memcpy(sum, d[row], sizeof sum);
    for (int k = 0; k < 16; ++k)
      for (int col = 0; col < 8; ++col) sum[col] += a[row][k] * b[k][col];
    std::memcpy(d[row], sum, sizeof sum);
  }
  for (int l = 0; l < kWarp; ++l)
    for (int i = 0; i < 4; ++i)
      static_cast<const Multiply*>(lanes[l])->d[i] = d[l / 4 + i / 2 * 8][2 * (l % 4) + i % 2];
}

}  // namespace

void load_matrices(unsigned (&r)[4], const void* row, bool transposed, Site site) {
  check_aligned(row, 16, site);
  Load own{r, row};
  collective(
      kAllLanes, &own, [transposed](void* const* lanes) { load_all(lanes, transposed); }, site);
}

void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Site site) {
  Multiply own{d, a, b};
  collective(
      kAllLanes, &own, [](void* const* lanes) { multiply_all(lanes); }, site);
}

}  // namespace titan::cuda::host
