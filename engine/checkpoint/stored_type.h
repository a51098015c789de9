// Element types on disk, and their conversion from and to the float32 that titan keeps in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace titan {

enum class StoredType { f32, bf16, f16, i32, i64, u8 };

int64_t size_of(StoredType type);                              ///< bytes of one element
std::string_view safetensors_name(StoredType type);            ///< "F32", "BF16", ...
std::optional<StoredType> stored_type(std::string_view name);  ///< from the safetensors name
StoredType export_type(std::string_view export_dtype);  ///< float32 | bfloat16 | float16, else UsageError

/// float32 to f32, bf16 or f16 (round to nearest even; too large becomes infinity). `out` has values.size()
/// elements.
void encode(StoredType type, std::span<const float> values, std::byte* out);
/// f32, bf16 or f16 to float32, exactly. `in` has out.size() elements and any alignment.
void decode(StoredType type, const std::byte* in, std::span<float> out);

}  // namespace titan
