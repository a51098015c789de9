// Whole files, and the hash that names their content.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace titan {

/// Throws UserError with the system's reason.
std::string read_file(const std::filesystem::path& path);

/// 128 bits of XXH3 as 32 hexadecimal digits.
std::string content_hash(std::string_view content);

}  // namespace titan
