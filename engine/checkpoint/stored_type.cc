#include "engine/checkpoint/stored_type.h"

#include "kernels/base/error.h"

#include <array>
#include <bit>
#include <cstring>

namespace titan {
namespace {

struct TypeRow {
  std::string_view name;
  int64_t size;
};
constexpr std::array<TypeRow, 6> kTypes{
    {{"F32", 4}, {"BF16", 2}, {"F16", 2}, {"I32", 4}, {"I64", 8}, {"U8", 1}}};

uint16_t to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);  // NaN stays one
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// By hand: not every compiler has a type of 16 bits for every processor.
uint16_t to_f16(float value) {
  constexpr uint32_t kInfinity = 0x7f800000u, kTooLarge = 0x477ff000u, kSmallestNormal = 0x38800000u;
  constexpr uint32_t kExponentShift = (127u - 15u) << 23;
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  uint32_t half = 0x7c00u;
  if (magnitude > kInfinity) {
    half |= 0x200u | (magnitude >> 13 & 0x3ffu);  // NaN stays one
  } else if (magnitude < kSmallestNormal) {
    // One unit in the last place of 0.5 is the smallest subnormal: the sum rounds as wanted.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  } else if (magnitude < kTooLarge) {
    half = (magnitude - kExponentShift + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  }
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) | half);
}

float from_f16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  return std::bit_cast<float>(sign |
                              std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f));
}

template <class Convert>
void encode16(std::span<const float> values, std::byte* out, Convert convert) {
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = convert(values[i]);
    std::memcpy(out + 2 * i, &bits, 2);
  }
}

template <class Convert>
void decode16(const std::byte* in, std::span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, in + 2 * i, 2);
    out[i] = convert(bits);
  }
}

}  // namespace

int64_t size_of(StoredType type) { return kTypes[static_cast<size_t>(type)].size; }

std::string_view safetensors_name(StoredType type) { return kTypes[static_cast<size_t>(type)].name; }

std::optional<StoredType> stored_type(std::string_view name) {
  for (size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i].name == name) return static_cast<StoredType>(i);
  return std::nullopt;
}

StoredType export_type(std::string_view export_dtype) {
  if (export_dtype == "float32") return StoredType::f32;
  if (export_dtype == "bfloat16") return StoredType::bf16;
  if (export_dtype == "float16") return StoredType::f16;
  throw UsageError(
      fmt::format("checkpoint.export_dtype = \"{}\": use float32, bfloat16 or float16", export_dtype));
}

void encode(StoredType type, std::span<const float> values, std::byte* out) {
  switch (type) {
    case StoredType::f32:
      std::memcpy(out, values.data(), values.size_bytes());
      return;
    case StoredType::bf16:
      encode16(values, out, to_bf16);
      return;
    case StoredType::f16:
      encode16(values, out, to_f16);
      return;
    default:
      TITAN_CHECK(false, "{} holds no floats", safetensors_name(type));
  }
}

void decode(StoredType type, const std::byte* in, std::span<float> out) {
  switch (type) {
    case StoredType::f32:
      std::memcpy(out.data(), in, out.size_bytes());
      return;
    case StoredType::bf16:
      decode16(in, out, from_bf16);
      return;
    case StoredType::f16:
      decode16(in, out, from_f16);
      return;
    default:
      TITAN_CHECK(false, "{} holds no floats", safetensors_name(type));
  }
}

}  // namespace titan
