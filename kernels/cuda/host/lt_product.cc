// Both factors are first turned into f32 panels, tile by tile, with the index of the sum outermost; then each
// tile of the product is summed in registers over the whole length of the sum.
#include "kernels/cuda/host/lt_product.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "kernels/base/bf16.h"
#include "kernels/base/float8.h"

namespace titan::cuda::host {
namespace {

constexpr std::int64_t kTileCols = 4;
constexpr std::int64_t kGroupCols = 64;  ///< of one turn of the parallel loop
constexpr std::int64_t kFewFlops = 1 << 18;

using Table = std::array<float, 256>;
template <class Float8>
Table make_table() {
  Table table;
  for (unsigned bits = 0; bits < 256; ++bits) table[bits] = to_float(Float8{static_cast<std::uint8_t>(bits)});
  return table;
}
const Table& values_of(cudaDataType type) {
  static const Table e4m3 = make_table<f8e4m3>(), e5m2 = make_table<f8e5m2>();
  return type == CUDA_R_8F_E4M3 ? e4m3 : e5m2;
}

/// f(p, convert): the elements' type, and what makes a float of one.
template <class F>
void with_elements(const StridedMatrix& matrix, F f) {
  if (matrix.type == CUDA_R_32F) return f(static_cast<const float*>(matrix.data), [](float x) { return x; });
  if (matrix.type == CUDA_R_16BF)
    return f(static_cast<const bf16*>(matrix.data), [](bf16 x) { return to_float(x); });
  const Table& table = values_of(matrix.type);
  f(static_cast<const std::uint8_t*>(matrix.data), [&table](std::uint8_t x) { return table[x]; });
}

/// panel[l·width + i] = element (first + i, l) for i < count, 0 up to `width`.
void pack_rows(const StridedMatrix& matrix, std::int64_t first, std::int64_t count, std::int64_t width,
               std::int64_t k, float* panel) {
  if (count < width) std::fill_n(panel, width * k, 0.0f);
  with_elements(matrix, [&](const auto* p, auto convert) {
    p += first * matrix.row_stride;
    for (std::int64_t l = 0; l < k; ++l)
      for (std::int64_t i = 0; i < count; ++i)
        panel[l * width + i] = convert(p[i * matrix.row_stride + l * matrix.col_stride]);
  });
}

/// All rows in panels of `width`, each width·k long.
std::vector<float> pack(const StridedMatrix& matrix, std::int64_t rows, std::int64_t width, std::int64_t k) {
  const std::int64_t panels = (rows + width - 1) / width;
  std::vector<float> packed(static_cast<std::size_t>(panels * width * k));
#pragma omp parallel for schedule(dynamic, 4) if (rows * k > kFewFlops)
  for (std::int64_t t = 0; t < panels; ++t)
    pack_rows(matrix, t * width, std::min(width, rows - t * width), width, k, packed.data() + t * width * k);
  return packed;
}

template <int kLanes>
struct VectorOf {
  typedef float type __attribute__((vector_size(kLanes * sizeof(float))));
};

/// tile[c][0..2·kLanes) = Σ_l a[l][·]·b[l][c].
template <int kLanes>
[[gnu::always_inline]] inline void sum_tile(const float* a, const float* b, std::int64_t k, float* tile) {
  using Vector = typename VectorOf<kLanes>::type;
  Vector sums[kTileCols][2] = {};
  for (std::int64_t l = 0; l < k; ++l) {
    Vector low, high;
    std::memcpy(&low, a + l * 2 * kLanes, sizeof low);
    std::memcpy(&high, a + l * 2 * kLanes + kLanes, sizeof high);
#pragma GCC unroll 4
    for (int c = 0; c < kTileCols; ++c) {
      const float y = b[l * kTileCols + c];
      sums[c][0] += low * y;
      sums[c][1] += high * y;
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < kTileCols; ++c) {
    const Vector low = sums[c][0], high = sums[c][1];
    std::memcpy(tile + c * 2 * kLanes, &low, sizeof low);
    std::memcpy(tile + c * 2 * kLanes + kLanes, &high, sizeof high);
  }
}

void sum_tile_4(const float* a, const float* b, std::int64_t k, float* tile) { sum_tile<4>(a, b, k, tile); }
__attribute__((target("avx2"))) void sum_tile_8(const float* a, const float* b, std::int64_t k, float* tile) {
  sum_tile<8>(a, b, k, tile);
}
__attribute__((target("avx512f"))) void sum_tile_16(const float* a, const float* b, std::int64_t k,
                                                    float* tile) {
  sum_tile<16>(a, b, k, tile);
}

struct Kernel {
  std::int64_t rows;  ///< of a tile
  void (*sum_tile)(const float* a, const float* b, std::int64_t k, float* tile);
};
Kernel choose_kernel() {
  if (__builtin_cpu_supports("avx512f")) return {32, sum_tile_16};
  if (__builtin_cpu_supports("avx2")) return {16, sum_tile_8};
  return {8, sum_tile_4};
}

}  // namespace

std::int64_t bytes_of(cudaDataType type) { return type == CUDA_R_32F ? 4 : type == CUDA_R_16BF ? 2 : 1; }

float load(cudaDataType type, const void* data, std::int64_t index) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[index];
  if (type == CUDA_R_16BF) return to_float(static_cast<const bf16*>(data)[index]);
  return values_of(type)[static_cast<const std::uint8_t*>(data)[index]];
}

void store(cudaDataType type, void* data, std::int64_t index, float x) {
  if (type == CUDA_R_32F)
    static_cast<float*>(data)[index] = x;
  else
    static_cast<bf16*>(data)[index] = to_bf16(x);
}

void multiply(const StridedMatrix& a, const StridedMatrix& b, std::int64_t m, std::int64_t n, std::int64_t k,
              float* sums) {
  static const Kernel kernel = choose_kernel();
  const StridedMatrix b_transposed{b.data, b.type, b.col_stride, b.row_stride};
  const std::vector<float> a_panels = pack(a, m, kernel.rows, k),
                           b_panels = pack(b_transposed, n, kTileCols, k);
  const std::int64_t row_tiles = (m + kernel.rows - 1) / kernel.rows,
                     groups = (n + kGroupCols - 1) / kGroupCols;
#pragma omp parallel for schedule(dynamic, 1) if (m * n * k > kFewFlops)
  for (std::int64_t turn = 0; turn < row_tiles * groups; ++turn) {
    const std::int64_t i = turn / groups * kernel.rows, group = turn % groups * kGroupCols;
    const std::int64_t rows = std::min(kernel.rows, m - i);
    for (std::int64_t j = group; j < std::min(group + kGroupCols, n); j += kTileCols) {
      alignas(64) float tile[32 * kTileCols];
      kernel.sum_tile(a_panels.data() + i * k, b_panels.data() + j * k, k, tile);
      for (std::int64_t c = 0; c < std::min(kTileCols, n - j); ++c)
        std::copy_n(tile + c * kernel.rows, rows, sums + i + m * (j + c));
    }
  }
}

}  // namespace titan::cuda::host
