#include "kernels/cpu/gemm/packed_gemm.h"

#include <algorithm>
#include <new>
#include <utility>

#include "kernels/cpu/base/team.h"
#include "kernels/cpu/gemm/gemm_kernels.h"

namespace titan::cpu {
namespace {

constexpr std::int64_t kPackedBytes = 32 << 20;  ///< of B, if that is not less than one tile of columns
constexpr std::int64_t kKeptBytes = 2 << 20;  ///< of an item's rows of A: what a thread finds in its caches
constexpr std::int64_t kMaxRows = 384, kMinRows = 48, kTileColumns = 288, kMinGroupColumns = 96;
constexpr std::int64_t kReadColumns =
    1536;                               ///< up to here packing rows of A costs more than reading them apart
constexpr std::int64_t kPackGroup = 4;  ///< panels of B that one thread packs at a time
constexpr std::align_val_t kAlignment{4096};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }
std::int64_t round_down(std::int64_t a, std::int64_t b) { return std::max(b, a / b * b); }

/// n cut into `parts` pieces of whole `unit`s.
std::int64_t piece(std::int64_t n, std::int64_t parts, std::int64_t unit) {
  return round_up(ceil_div(n, parts), unit);
}

const std::byte* element(const MatrixView& x, DType dtype, std::int64_t row, std::int64_t column) {
  if (x.transposed) std::swap(row, column);
  return static_cast<const std::byte*>(x.data) +
         (row * x.pitch + column) * (x.codes != nullptr ? 1 : size_of(dtype));
}

/// Rows of codes become rows of bf16, `depth` apart.
void decode(const std::byte* from, std::int64_t pitch, const std::uint16_t* codes, std::int64_t rows,
            std::int64_t depth, std::uint16_t* to) {
  for (std::int64_t r = 0; r < rows; ++r, from += pitch, to += depth)
    for (std::int64_t d = 0; d < depth; ++d) to[d] = codes[static_cast<std::uint8_t>(from[d])];
}

/// One product: its blocks and where their buffers are.
class Product {
 public:
  Product(const GemmProblem& problem, const PackedKernels& kernels, int threads)
      : p_(problem),
        kernels_(kernels),
        blocking_(choose_blocking(problem, threads, kernels)),
        b_bytes_(round_up(packed_bytes(blocking_.packed_columns), 4096)),
        a_bytes_(round_up(blocking_.reads_a   ? 0
                          : blocking_.keeps_a ? packed_bytes(blocking_.rows)
                                              : kernels.panel_bytes(blocking_.rows, kernels.depth),
                          4096)),
        sums_bytes_(problem.k > kernels.depth
                        ? round_up(blocking_.rows * blocking_.tile_columns * size_of(DType::f32), 4096)
                        : 0),
        decoded_bytes_(problem.a.codes != nullptr
                           ? round_up(std::max(blocking_.rows, kPackGroup * kernels.tile_columns) *
                                          kernels.depth * size_of(DType::bf16),
                                      4096)
                           : 0),
        threads_(threads) {}

  std::int64_t buffer_bytes() const { return b_bytes_ + threads_ * thread_bytes(); }

  void run(const Team& team, std::byte* buffer) {
    packed_b_ = buffer;
    const std::int64_t items_m = ceil_div(p_.m, blocking_.rows);
    for (std::int64_t column = 0; column < p_.n; column += blocking_.packed_columns) {
      const std::int64_t columns = std::min(blocking_.packed_columns, p_.n - column);
      pack_b(team, column, columns);
      const std::int64_t groups = ceil_div(columns, blocking_.group_columns);
      team.parallel_items(items_m * groups, [&](std::int64_t item, int thread) {
        const std::int64_t first = item % groups * blocking_.group_columns;
        multiply_item(item / groups * blocking_.rows, column, first,
                      std::min(columns, first + blocking_.group_columns), thread);
      });
    }
  }

 private:
  std::int64_t thread_bytes() const { return a_bytes_ + sums_bytes_ + decoded_bytes_; }
  std::byte* thread_buffer(int thread) const { return packed_b_ + b_bytes_ + thread * thread_bytes(); }

  /// Packs `items` × `depth` from `source` on. Bytes become bf16 on the way; both operands' run along k.
  void pack(PackedKernels::Pack kernel, const MatrixView& x, bool items_contiguous, const std::byte* source,
            std::int64_t items, std::int64_t depth, std::byte* panels, int thread) const {
    if (x.codes == nullptr) return kernel(source, x.pitch, items_contiguous, items, depth, panels);
    auto* const decoded = reinterpret_cast<std::uint16_t*>(thread_buffer(thread) + a_bytes_ + sums_bytes_);
    decode(source, x.pitch, x.codes, items, depth, decoded);
    kernel(decoded, depth, false, items, depth, panels);
  }

  /// Items × all of k, block after block of it.
  std::int64_t packed_bytes(std::int64_t items) const {
    return p_.k / kernels_.depth * kernels_.panel_bytes(items, kernels_.depth) +
           kernels_.panel_bytes(items, p_.k % kernels_.depth);
  }
  /// Where block `d` of k starts among `items` packed ones.
  std::int64_t block_offset(std::int64_t items, std::int64_t d) const {
    return d / kernels_.depth * kernels_.panel_bytes(items, kernels_.depth);
  }
  std::int64_t depth_at(std::int64_t d) const { return std::min(kernels_.depth, p_.k - d); }

  void pack_b(const Team& team, std::int64_t column, std::int64_t columns) const {
    const std::int64_t panels = ceil_div(columns, kernels_.tile_columns),
                       groups = ceil_div(panels, kPackGroup);
    team.parallel_items(ceil_div(p_.k, kernels_.depth) * groups, [&](std::int64_t item, int thread) {
      const std::int64_t d = item / groups * kernels_.depth, depth = depth_at(d);
      const std::int64_t first = item % groups * kPackGroup * kernels_.tile_columns;
      const std::int64_t count = std::min(kPackGroup * kernels_.tile_columns, columns - first);
      pack(kernels_.pack_b, p_.b, !p_.b.transposed, element(p_.b, p_.input, d, column + first), count, depth,
           packed_b_ + block_offset(panels * kernels_.tile_columns, d) + kernels_.panel_bytes(first, depth),
           thread);
    });
  }

  /// Rows from `row` on, columns [begin, end) of those packed from `column` on.
  void multiply_item(std::int64_t row, std::int64_t column, std::int64_t begin, std::int64_t end,
                     int thread) const {
    const PackedKernels& kernels = kernels_;
    std::byte* const packed_a = thread_buffer(thread);
    const std::int64_t rows = std::min(blocking_.rows, p_.m - row);
    const std::int64_t padded_rows = round_up(rows, kernels.tile_rows);
    const std::int64_t padded_columns =
        round_up(std::min(blocking_.packed_columns, p_.n - column), kernels.tile_columns);
    GemmBlock block{.rows = rows,
                    .columns = 0,
                    .depth = 0,
                    .a = packed_a,
                    .b = nullptr,
                    .a_pitch = blocking_.reads_a ? p_.a.pitch * size_of(p_.input) : 0,
                    .first = false,
                    .last = false,
                    .sums = reinterpret_cast<float*>(packed_a + a_bytes_),
                    .sums_pitch = blocking_.tile_columns,
                    .c = nullptr,
                    .c_pitch = p_.c_pitch,
                    .add = p_.add,
                    .scaling = {}};
    for (std::int64_t tile = begin; tile < end; tile += blocking_.tile_columns) {
      block.columns = std::min(blocking_.tile_columns, end - tile);
      block.c = static_cast<std::byte*>(p_.c) + (row * p_.c_pitch + column + tile) * size_of(p_.output);
      block.scaling = scaling_at(row, column + tile);
      for (std::int64_t d = 0; d < p_.k; d += kernels.depth) {
        block.depth = depth_at(d);
        block.first = d == 0;
        block.last = d + kernels.depth >= p_.k;
        const std::byte* const a = element(p_.a, p_.input, row, d);
        std::byte* const packed = packed_a + (blocking_.keeps_a ? block_offset(padded_rows, d) : 0);
        if (!blocking_.reads_a && (tile == begin || !blocking_.keeps_a))
          pack(kernels.pack_a, p_.a, p_.a.transposed, a, rows, block.depth, packed, thread);
        block.a = blocking_.reads_a ? a : packed;
        block.b = packed_b_ + block_offset(padded_columns, d) + kernels.panel_bytes(tile, block.depth);
        (p_.output == DType::bf16 ? kernels.multiply_to_bf16 : kernels.multiply_to_f32)(block);
      }
    }
  }

  GemmScaling scaling_at(std::int64_t row, std::int64_t column) const {
    GemmScaling scaling = p_.scaling;
    if (scaling.each) scaling.rows += row, scaling.columns += column;
    return scaling;
  }

  const GemmProblem& p_;
  const PackedKernels& kernels_;
  const Blocking blocking_;
  const std::int64_t b_bytes_, a_bytes_, sums_bytes_, decoded_bytes_;
  const int threads_;
  std::byte* packed_b_ = nullptr;
};

}  // namespace

const PackedKernels& packed_kernels(Isa isa, DType input) {
  if (input == DType::f32) return choose(isa, baseline::kFromF32, avx2::kFromF32, avx512::kFromF32);
  if (isa == Isa::amx) return amx::kFromBf16;
  if (isa == Isa::avx512_bf16) return avx512_bf16::kFromBf16;
  return choose(isa, baseline::kFromBf16, avx2::kFromBf16, avx512::kFromBf16);
}

Blocking choose_blocking(const GemmProblem& p, int threads, const PackedKernels& kernels) {
  const std::int64_t bytes_per_item = std::max<std::int64_t>(1, kernels.panel_bytes(1, p.k));
  const std::int64_t all_columns = round_up(p.n, kernels.tile_columns);
  Blocking x{};
  x.tile_columns = round_down(kTileColumns, kernels.tile_columns);
  x.packed_columns =
      std::max(round_down(kPackedBytes / bytes_per_item, kernels.tile_columns), x.tile_columns);
  x.packed_columns = piece(all_columns, ceil_div(all_columns, x.packed_columns), kernels.tile_columns);

  const std::int64_t most_rows = std::clamp(kKeptBytes / bytes_per_item, kMinRows, kMaxRows);
  std::int64_t parts_m = ceil_div(p.m, most_rows);
  x.column_groups = 1;
  for (;;) {
    x.rows = piece(p.m, parts_m, kernels.tile_rows);
    x.group_columns = piece(x.packed_columns, x.column_groups, kernels.tile_columns);
    const std::int64_t items = ceil_div(p.m, x.rows) * ceil_div(x.packed_columns, x.group_columns);
    const bool busy = ceil_div(items, threads) * threads * 7 <= items * 8;  // at most 1/8 of the time waiting
    if (busy) break;
    if (x.rows > kMinRows)
      ++parts_m;
    else if (x.group_columns > kMinGroupColumns)
      ++x.column_groups;
    else
      break;
  }
  x.tile_columns = std::min(x.tile_columns, x.group_columns);
  x.reads_a =
      kernels.reads_rows && p.a.codes == nullptr && !p.a.transposed && p.k % 2 == 0 && p.n <= kReadColumns;
  x.keeps_a = x.group_columns > x.tile_columns && x.rows * bytes_per_item <= kKeptBytes;
  return x;
}

void PackedGemm::Free::operator()(std::byte* p) const { ::operator delete(p, kAlignment); }

std::byte* PackedGemm::reserve(std::int64_t bytes) {
  if (bytes > bytes_) {
    buffer_.reset();
    bytes_ = 0;
    buffer_.reset(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), kAlignment)));
    bytes_ = bytes;
  }
  return buffer_.get();
}

void PackedGemm::multiply(const GemmProblem& problem, const Team& team) {
  Product product(problem, packed_kernels(isa_, problem.input), team.threads());
  product.run(team, reserve(product.buffer_bytes()));
}

}  // namespace titan::cpu
