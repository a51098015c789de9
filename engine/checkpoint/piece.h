// Pieces of parameters: which elements of a global tensor someone holds or wants. Because every stored and
// every wanted piece is named in global coordinates, any layout loads a checkpoint of any other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace titan {

/// A rectangle in a tensor, one offset and size per dimension.
struct Box {
  std::vector<int64_t> offset, size;
  bool operator==(const Box&) const = default;
};

/// Elements [flat_begin, flat_end), counted in row-major order inside `box`, of the parameter of shape
/// `global_shape` (1-D or 2-D). Tensor parallelism cuts the box, FSDP the flat range. The piece is stored as
/// flat_end - flat_begin consecutive elements.
struct Piece {
  std::string parameter;
  std::vector<int64_t> global_shape;
  Box box;
  int64_t flat_begin = 0, flat_end = 0;

  int64_t elements() const { return flat_end - flat_begin; }
  bool operator==(const Piece&) const = default;
};

/// The whole parameter; `box` of it; elements [begin, end) of `box`.
Piece whole_piece(std::string parameter, std::vector<int64_t> shape);
Piece box_piece(std::string parameter, std::vector<int64_t> shape, Box box);
Piece flat_piece(std::string parameter, std::vector<int64_t> shape, Box box, int64_t begin, int64_t end);

bool is_whole(const Piece& piece);    ///< every element of the parameter
bool covers_box(const Piece& piece);  ///< every element of its box

/// "NAME" for a whole parameter, "NAME[0:4,8:16]" for a box, "NAME[0:4,8:16]{5:20}" for a range in it.
std::string to_string(const Piece& piece);
std::string piece_suffix(const Piece& piece);           ///< what to_string adds to the name
std::string to_string(std::span<const int64_t> shape);  ///< "[4, 16]"

/// Why `piece` is not one (sizes, bounds, overflow), or "".
std::string find_fault(const Piece& piece);

/// Copy `count` elements from element `source` of have[have] to element `target` of the wanted piece.
struct CopyRange {
  size_t have;
  int64_t source, target, count;
  bool operator==(const CopyRange&) const = default;
};

/// The fewest-pieces way to fill `want` from `have`: ranges in order of `target`, each element written once.
/// All pieces must belong to one parameter and be faultless; pieces of `have` may overlap (replicas). Throws
/// UserError that names the first element nobody has.
std::vector<CopyRange> plan_reads(std::span<const Piece> have, const Piece& want);

}  // namespace titan
