// What an operation touches. An operand names a value of the program and repeats its type and shape, so that
// an op can be costed, printed and launched without the program around it.
#pragma once

#include <cstdint>

#include "kernels/base/dtype.h"

namespace titan {

/// Index of a value in its program.
using ValueId = std::int32_t;
inline constexpr ValueId kNoValue = -1;

/// How a node touches the bytes of an operand.
enum class Access : std::uint8_t {
  in,          ///< read
  out,         ///< written without reading what was there
  accumulate,  ///< the first writer of a lifetime overwrites, later ones add
  state,       ///< read and updated in place
  scratch,     ///< working memory of this node alone; holds nothing before or after
};

constexpr bool reads(Access a) { return a == Access::in || a == Access::state || a == Access::accumulate; }
constexpr bool writes(Access a) { return a != Access::in; }

/// A row-major matrix [rows, cols]; row r starts `pitch` elements after row r-1. Vectors are [1, n] or [n,
/// 1].
struct Operand {
  ValueId value = kNoValue;
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0, pitch = 0;

  explicit operator bool() const { return value != kNoValue; }
  std::int64_t elements() const { return rows * cols; }
  std::int64_t bytes() const { return elements() * size_of(dtype); }
  bool contiguous() const { return pitch == cols || rows <= 1; }
};

struct In : Operand {
  static constexpr Access access() { return Access::in; }
};
struct Out : Operand {
  static constexpr Access access() { return Access::out; }
};
struct Accumulate : Operand {
  static constexpr Access access() { return Access::accumulate; }
};
struct State : Operand {
  static constexpr Access access() { return Access::state; }
};
struct Scratch : Operand {
  static constexpr Access access() { return Access::scratch; }
};
/// Out or Accumulate, chosen by the builder: the output of a GEMM or of an attention gradient.
struct Result : Operand {
  bool accumulates = false;
  Access access() const { return accumulates ? Access::accumulate : Access::out; }
};

}  // namespace titan
