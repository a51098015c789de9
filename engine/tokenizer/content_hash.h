// The hash that names a file's content.
#pragma once

#include <string>
#include <string_view>

namespace titan {

/// 128 bits of XXH3 as 32 hexadecimal digits.
std::string content_hash(std::string_view content);

}  // namespace titan
