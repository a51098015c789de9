#include "engine/tokenizer/files.h"

#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "kernels/base/error.h"

namespace titan {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw UserError(fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
  std::string content(file.tellg(), '\0');
  file.seekg(0);
  if (!file.read(content.data(), static_cast<std::streamsize>(content.size()))) {
    throw UserError(fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
  }
  return content;
}

std::string content_hash(std::string_view content) {
  const XXH128_hash_t hash = XXH3_128bits(content.data(), content.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace titan
