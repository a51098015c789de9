// What decides how a matrix product is computed. Products with equal keys run the same algorithm, and so give
// the same bits for the same numbers.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/base/dtype.h"

namespace titan::cuda {

/// By what 8-bit products are multiplied.
enum class GemmScales : std::uint8_t {
  none,
  tensor,  ///< one factor for a, one for b
  rows,    ///< one for each row of op(a), one for each column of op(b)
};

/// c [m, n] = op(a)·op(b) [+ c], row-major, as the operation says it (kernels/op/ops.h).
struct GemmKey {
  std::int64_t m = 0, n = 0, k = 0;
  DType a = DType::f32, b = DType::f32, c = DType::f32;
  bool transpose_a = false, transpose_b = false;
  std::int64_t a_pitch = 0, b_pitch = 0, c_pitch = 0;              ///< elements
  std::int64_t a_alignment = 0, b_alignment = 0, c_alignment = 0;  ///< alignment_of() the pointers
  bool adds = false;
  GemmScales scales = GemmScales::none;
  bool fast_accumulation = false;
  std::int64_t workspace_bytes = 0;
  std::int64_t multiprocessors = 0;  ///< that the product may use; 0: all

  auto operator<=>(const GemmKey&) const = default;
};

/// The largest power of two up to 16 that divides the address: no kernel asks for more, and keys shall not
/// depend on where else memory lies.
std::int64_t alignment_of(const void* p);

/// The fields in one line, divided by spaces, in the order of key_columns().
std::string to_text(const GemmKey& key);
std::string key_columns();
/// The opposite. Throws std::invalid_argument with what is wrong.
GemmKey parse_gemm_key(std::string_view text);

}  // namespace titan::cuda
