// Hashes of file contents, remembered so that an unchanged corpus is not read again at every start.
#pragma once

#include "engine/data/text_files.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace titan {

inline constexpr const char* kHashesFile = "hashes.json";  ///< in the root of a cache

/// What tells without reading that a file is still the one that was hashed.
struct FileStamp {
  int64_t size = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;  ///< of the inode
  uint64_t inode = 0;
  bool operator==(const FileStamp&) const = default;
};
FileStamp stamp_of(const std::filesystem::path& path);

/// XXH3-128 as 32 hexadecimal digits.
std::string hash_text(std::string_view text);

/// path -> (stamp, hash), kept in a JSON file. A damaged or missing file counts as empty.
class ContentHashes {
 public:
  explicit ContentHashes(std::filesystem::path file);
  /// The hash of the file's bytes; reads them only when the stamp is new. `on_bytes(n)` reports n more bytes
  /// done.
  std::string hash_of(const std::filesystem::path& path, const std::function<void(int64_t)>& on_bytes);
  void save() const;  ///< if anything was added

 private:
  struct Entry {
    FileStamp stamp;
    std::string hash;
  };
  std::filesystem::path file_;
  std::map<std::string, Entry> entries_;
  bool changed_ = false;
};

}  // namespace titan
