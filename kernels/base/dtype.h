// Element types of tensors.
#pragma once

#include <cstdint>

namespace titan {

enum class DType : std::uint8_t { f32, bf16, i32, i64 };

/// Bytes of one element.
constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
      return 2;
    case DType::i64:
      return 8;
  }
  return 0;
}

constexpr const char* to_string(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
  }
  return "?";
}

}  // namespace titan
