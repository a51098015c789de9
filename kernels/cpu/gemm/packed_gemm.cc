#include "kernels/cpu/gemm/packed_gemm.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "kernels/base/bf16.h"
#include "kernels/cpu/base/team.h"
#include "kernels/cpu/gemm/gemm_kernels.h"

namespace titan::cpu {
namespace {

// Largest tile. A block of packed A (kBlockRows × depth) and packed B share the second-level cache.
constexpr std::int64_t kMaxRows = 384, kMaxColumns = 288, kBlockRows = 96;
constexpr std::int64_t kMinRows = 48, kMinColumns = 96;
constexpr std::int64_t kAlignment = 64;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

/// n cut into `parts` pieces of whole `unit`s.
std::int64_t piece(std::int64_t n, std::int64_t parts, std::int64_t unit) {
  return round_up(ceil_div(n, parts), unit);
}

const std::byte* element(const MatrixView& x, DType dtype, std::int64_t row, std::int64_t column) {
  if (x.transposed) std::swap(row, column);
  return static_cast<const std::byte*>(x.data) + (row * x.pitch + column) * size_of(dtype);
}

}  // namespace

const GemmKernels& gemm_kernels(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return avx512::kGemmKernels;
    case Isa::avx2:
      return avx2::kGemmKernels;
    case Isa::baseline:
      break;
  }
  return baseline::kGemmKernels;
}

Tiling choose_tiling(std::int64_t m, std::int64_t n, int threads, const GemmKernels& kernels) {
  std::int64_t parts_m = ceil_div(m, kMaxRows), parts_n = ceil_div(n, kMaxColumns);
  for (;;) {
    const Tiling size{piece(m, parts_m, kernels.tile_rows), piece(n, parts_n, kernels.tile_columns)};
    const std::int64_t tiles = ceil_div(m, size.rows) * ceil_div(n, size.columns);
    const bool busy = ceil_div(tiles, threads) * threads * 7 <= tiles * 8;  // at most 1/8 of the time waiting
    const bool can_split_rows = size.rows > kMinRows, can_split_columns = size.columns > kMinColumns;
    if (busy || !(can_split_rows || can_split_columns)) return size;
    if (can_split_rows && (size.rows * 2 >= size.columns || !can_split_columns))
      ++parts_m;
    else
      ++parts_n;
  }
}

/// The parts of one thread's buffer, in floats.
struct PackedGemm::Buffers {
  std::int64_t a, b, tile;
  explicit Buffers(const GemmKernels& kernels)
      : a(kBlockRows * kernels.depth),
        b(round_up(kMaxColumns, kernels.tile_columns) * kernels.depth),
        tile(round_up(kMaxRows, kernels.tile_rows) * round_up(kMaxColumns, kernels.tile_columns)) {}
  std::int64_t total() const { return a + b + tile; }
};

PackedGemm::PackedGemm(Isa isa) : kernels_(gemm_kernels(isa)) {}

void PackedGemm::Free::operator()(float* p) const { std::free(p); }

std::int64_t PackedGemm::buffer_bytes() const {
  return static_cast<std::int64_t>(buffers_.size()) * Buffers(kernels_).total() * size_of(DType::f32);
}

void PackedGemm::reserve(int threads) {
  const std::size_t bytes = static_cast<std::size_t>(Buffers(kernels_).total()) * sizeof(float);
  while (static_cast<int>(buffers_.size()) < threads) {
    void* memory = std::aligned_alloc(kAlignment, round_up(bytes, kAlignment));
    if (memory == nullptr) throw std::bad_alloc();
    buffers_.emplace_back(static_cast<float*>(memory));
  }
}

void PackedGemm::multiply(const GemmProblem& problem, const Team& team) {
  reserve(team.threads());
  const Tiling size = choose_tiling(problem.m, problem.n, team.threads(), kernels_);
  const std::int64_t tiles_m = ceil_div(problem.m, size.rows), tiles_n = ceil_div(problem.n, size.columns);
  team.parallel_items(tiles_m * tiles_n, [&](std::int64_t tile, int thread) {
    multiply_tile(problem, tile / tiles_n * size.rows, tile % tiles_n * size.columns, size,
                  buffers_[thread].get());
  });
}

void PackedGemm::multiply_tile(const GemmProblem& p, std::int64_t row, std::int64_t column, Tiling size,
                               float* buffer) const {
  const Buffers parts(kernels_);
  float *packed_a = buffer, *packed_b = packed_a + parts.a;
  const std::int64_t rows = std::min(size.rows, p.m - row), columns = std::min(size.columns, p.n - column);
  const bool rounds = p.output == DType::bf16;
  std::byte* c = static_cast<std::byte*>(p.c) + (row * p.c_pitch + column) * size_of(p.output);
  float* sums = rounds ? packed_b + parts.b : reinterpret_cast<float*>(c);
  const std::int64_t pitch = rounds ? size.columns : p.c_pitch;
  const bool add_first = p.add && !rounds;
  const auto pack_a = p.input == DType::bf16 ? kernels_.pack_a_bf16 : kernels_.pack_a_f32;
  const auto pack_b = p.input == DType::bf16 ? kernels_.pack_b_bf16 : kernels_.pack_b_f32;

  for (std::int64_t d = 0; d < p.k; d += kernels_.depth) {
    const std::int64_t depth = std::min(kernels_.depth, p.k - d);
    pack_b(element(p.b, p.input, d, column), p.b.pitch, !p.b.transposed, columns, depth, packed_b);
    for (std::int64_t r = 0; r < rows; r += kBlockRows) {
      const std::int64_t block = std::min(kBlockRows, rows - r);
      pack_a(element(p.a, p.input, row + r, d), p.a.pitch, p.a.transposed, block, depth, packed_a);
      kernels_.multiply(block, columns, depth, packed_a, packed_b, sums + r * pitch, pitch,
                        d > 0 || add_first);
    }
  }
  if (rounds) kernels_.round(rows, columns, sums, pitch, c, p.c_pitch, p.add);
}

}  // namespace titan::cpu
