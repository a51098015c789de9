// 8-bit floats as the Open Compute Project defines them ("OCP 8-bit Floating Point Specification", 2023), and
// the scaling that goes with them.
//
//   e4m3: 1 sign, 4 exponent (bias 7), 3 fraction bits. Largest 448, smallest 2^-9. No infinity; NaN is
//   s1111111. e5m2: 1 sign, 5 exponent (bias 15), 2 fraction bits. Largest 57344, smallest 2^-16. Infinity
//   and NaN as IEEE
//         754 has them.
//
// Conversion to 8 bits rounds to nearest, ties to even, and saturates: larger values and infinities become
// the largest finite one of their sign; NaN becomes 0x7f. Conversion from 8 bits is exact, in bf16 too.
// constexpr, so that nvcc compiles them for the device too. Nothing here makes subnormal f32, so flushing
// them changes nothing.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/base/dtype.h"

namespace titan {

struct f8e4m3 {
  std::uint8_t bits;
};
struct f8e5m2 {
  std::uint8_t bits;
};

/// Largest finite value of an 8-bit dtype.
constexpr float float8_max(DType dtype) { return dtype == DType::f8e5m2 ? 57344.0f : 448.0f; }

namespace detail {

/// Shifts f32 bits so that the target's fraction remains. kBias: of the target's exponent.
template <int kFractionBits, int kBias>
constexpr std::uint8_t float8_bits(float x, float max) {
  constexpr int kShift = 23 - kFractionBits;
  constexpr std::uint32_t kSmallestNormal = static_cast<std::uint32_t>(128 - kBias) << 23;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x), magnitude = bits & 0x7fffffffu;
  const auto sign = static_cast<std::uint8_t>(bits >> 24 & 0x80u);
  if (magnitude > 0x7f800000u) return 0x7f;
  const std::uint32_t most = std::bit_cast<std::uint32_t>(max);
  const std::uint32_t u = magnitude < most ? magnitude : most;
  if (u < kSmallestNormal) {
    // A number whose last bit is worth the smallest 8-bit value: adding it rounds to a multiple of that.
    constexpr std::uint32_t kMagic = static_cast<std::uint32_t>(127 + 1 - kBias - kFractionBits + 23) << 23;
    const float rounded = std::bit_cast<float>(u) + std::bit_cast<float>(kMagic);
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(rounded) - kMagic));
  }
  const std::uint32_t rounded = u + ((1u << (kShift - 1)) - 1) + (u >> kShift & 1u);
  return static_cast<std::uint8_t>(sign | ((rounded >> kShift) - ((127u - kBias) << kFractionBits)));
}

template <int kFractionBits, int kBias>
constexpr float float8_value(std::uint8_t bits) {
  constexpr int kShift = 23 - kFractionBits;
  const std::uint32_t magnitude = bits & 0x7fu, sign = static_cast<std::uint32_t>(bits & 0x80u) << 24;
  if (magnitude >> kFractionBits == 0) {
    constexpr std::uint32_t kSmallest = static_cast<std::uint32_t>(127 + 1 - kBias - kFractionBits) << 23;
    const float value = static_cast<float>(magnitude) * std::bit_cast<float>(kSmallest);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  return std::bit_cast<float>(((magnitude << kShift) + ((127u - kBias) << 23)) | sign);
}

}  // namespace detail

constexpr f8e4m3 to_f8e4m3(float x) { return {detail::float8_bits<3, 7>(x, 448.0f)}; }
constexpr f8e5m2 to_f8e5m2(float x) { return {detail::float8_bits<2, 15>(x, 57344.0f)}; }

constexpr float to_float(f8e4m3 x) {
  if ((x.bits & 0x7f) == 0x7f) return std::bit_cast<float>(0x7fc00000u);
  return detail::float8_value<3, 7>(x.bits);
}
constexpr float to_float(f8e5m2 x) {
  const std::uint32_t magnitude = x.bits & 0x7fu, sign = static_cast<std::uint32_t>(x.bits & 0x80u) << 24;
  if (magnitude >= 0x7cu)
    return std::bit_cast<float>((magnitude == 0x7cu ? 0x7f800000u : 0x7fc00000u) | sign);
  return detail::float8_value<2, 15>(x.bits);
}

/// What values with the largest magnitude `amax` are multiplied by before they are rounded to `dtype`:
/// max / max(amax, 1e-12), as torchao has it. NaN for a NaN amax, 0 for an infinite one.
constexpr float float8_factor(DType dtype, float amax) {
  return float8_max(dtype) / (amax < 1e-12f ? 1e-12f : amax);
}

/// The largest power of two that is not above a factor; NaN and 0 stay.
constexpr float floor_to_power_of_two(float factor) {
  if (factor != factor) return factor;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(factor) & 0x7f800000u);
}

}  // namespace titan
