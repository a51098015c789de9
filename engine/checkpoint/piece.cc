#include "engine/checkpoint/piece.h"

#include "kernels/base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace titan {
namespace {

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// A box as rows and columns of a matrix; a vector is one row.
struct Rectangle {
  int64_t first_row, rows, first_column, columns;
  int64_t pitch;  ///< columns of the whole parameter
};

Rectangle rectangle(const Piece& piece) {
  const auto& [offset, size] = piece.box;
  if (offset.size() == 1) return {0, 1, offset[0], size[0], piece.global_shape[0]};
  return {offset[0], size[0], offset[1], size[1], piece.global_shape[1]};
}

/// Elements [begin, end) of the parameter in row-major order: consecutive elements of a piece, the first at
/// `local`.
struct Run {
  int64_t begin, end;
  size_t have;
  int64_t local;
};

/// Appends the runs of `piece` within [low, high) of the parameter, in order.
void append_runs(const Piece& piece, size_t have, int64_t low, int64_t high, std::vector<Run>& runs) {
  if (piece.elements() == 0) return;
  const Rectangle r = rectangle(piece);
  const bool full_width = r.columns == r.pitch;
  const int64_t width = full_width ? r.rows * r.columns : r.columns;
  const int64_t first = std::max(piece.flat_begin / width, full_width ? 0 : low / r.pitch - r.first_row);
  const int64_t last =
      std::min((piece.flat_end - 1) / width, full_width ? 0 : (high - 1) / r.pitch - r.first_row);
  for (int64_t line = first; line <= last; ++line) {
    const int64_t begin = std::max(piece.flat_begin, line * width);
    const int64_t end = std::min(piece.flat_end, (line + 1) * width);
    const int64_t global = (r.first_row + line) * r.pitch + r.first_column + begin - line * width;
    if (global < high && global + end - begin > low)
      runs.push_back({global, global + end - begin, have, begin - piece.flat_begin});
  }
}

void append_copy(const CopyRange& copy, std::vector<CopyRange>& copies) {
  if (!copies.empty()) {
    CopyRange& last = copies.back();
    if (last.have == copy.have && last.source + last.count == copy.source &&
        last.target + last.count == copy.target) {
      last.count += copy.count;
      return;
    }
  }
  copies.push_back(copy);
}

[[noreturn]] void throw_uncovered(const Piece& want, int64_t element) {
  const int64_t pitch = want.global_shape.back();
  const std::string place = want.global_shape.size() == 1
                                ? fmt::format("[{}]", element)
                                : fmt::format("[{}, {}]", element / pitch, element % pitch);
  throw UserError(fmt::format("{}: element {} of shape {} is in none of the stored pieces", to_string(want),
                              place, to_string(want.global_shape)));
}

}  // namespace

Piece whole_piece(std::string parameter, std::vector<int64_t> shape) {
  Box box{std::vector<int64_t>(shape.size(), 0), shape};
  return box_piece(std::move(parameter), std::move(shape), std::move(box));
}

Piece box_piece(std::string parameter, std::vector<int64_t> shape, Box box) {
  const int64_t end = product(box.size);
  return {std::move(parameter), std::move(shape), std::move(box), 0, end};
}

Piece flat_piece(std::string parameter, std::vector<int64_t> shape, Box box, int64_t begin, int64_t end) {
  return {std::move(parameter), std::move(shape), std::move(box), begin, end};
}

bool is_whole(const Piece& piece) { return piece.elements() == product(piece.global_shape); }

bool covers_box(const Piece& piece) { return piece.elements() == product(piece.box.size); }

std::string to_string(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string piece_suffix(const Piece& piece) {
  if (is_whole(piece)) return "";
  std::vector<std::string> ranges;
  for (size_t d = 0; d < piece.box.size.size(); ++d)
    ranges.push_back(fmt::format("{}:{}", piece.box.offset[d], piece.box.offset[d] + piece.box.size[d]));
  const std::string box = fmt::format("[{}]", fmt::join(ranges, ","));
  return covers_box(piece) ? box : fmt::format("{}{{{}:{}}}", box, piece.flat_begin, piece.flat_end);
}

std::string to_string(const Piece& piece) { return piece.parameter + piece_suffix(piece); }

std::string find_fault(const Piece& piece) {
  const auto& [offset, size] = piece.box;
  const size_t dims = piece.global_shape.size();
  if (piece.parameter.empty()) return "no parameter name";
  if (dims < 1 || dims > 2) return fmt::format("{} dimensions, expected 1 or 2", dims);
  if (offset.size() != dims || size.size() != dims) return fmt::format("box is not of {} dimensions", dims);
  int64_t total = 1, inside = 1;
  for (size_t d = 0; d < dims; ++d) {
    const int64_t n = piece.global_shape[d];
    if (n < 1 || __builtin_mul_overflow(total, n, &total))
      return fmt::format("impossible shape {}", to_string(piece.global_shape));
    if (offset[d] < 0 || size[d] < 0 || offset[d] > n || size[d] > n - offset[d])
      return fmt::format("box offset {} size {} is outside shape {}", to_string(offset), to_string(size),
                         to_string(piece.global_shape));
    inside *= size[d];
  }
  if (piece.flat_begin < 0 || piece.flat_end < piece.flat_begin || piece.flat_end > inside)
    return fmt::format("range {}:{} is outside the {} elements of its box", piece.flat_begin, piece.flat_end,
                       inside);
  return "";
}

std::vector<CopyRange> plan_reads(std::span<const Piece> have, const Piece& want) {
  if (want.elements() == 0) return {};
  std::vector<Run> wanted, stored;
  append_runs(want, 0, 0, product(want.global_shape), wanted);
  for (size_t i = 0; i < have.size(); ++i)
    append_runs(have[i], i, wanted.front().begin, wanted.back().end, stored);
  std::stable_sort(stored.begin(), stored.end(),
                   [](const Run& a, const Run& b) { return a.begin < b.begin; });

  std::vector<CopyRange> copies;
  Run best{0, 0, 0, 0};  // of the runs that begin at or before `at`, the one that reaches furthest
  auto next = stored.begin();
  for (const Run& run : wanted) {
    for (int64_t at = run.begin; at < run.end;) {
      for (; next != stored.end() && next->begin <= at; ++next)
        if (next->end > best.end) best = *next;
      if (best.end <= at) throw_uncovered(want, at);
      const int64_t count = std::min(best.end, run.end) - at;
      append_copy({best.have, best.local + at - best.begin, run.local + at - run.begin, count}, copies);
      at += count;
    }
  }
  return copies;
}

}  // namespace titan
