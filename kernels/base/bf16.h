// bfloat16: the upper half of a float32. Conversion rounds to nearest, ties to even; NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace titan {

struct bf16 {
  std::uint16_t bits;
};

inline float to_float(bf16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
inline float to_float(float x) { return x; }

inline bf16 to_bf16(float x) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return bf16{static_cast<std::uint16_t>((u >> 16) | 0x40u)};
  return bf16{static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

}  // namespace titan
