// A file that grows record by record and never keeps half of one.
#pragma once

#include <filesystem>
#include <string_view>

namespace titan {

class AppendFile {
 public:
  /// Opens or creates `path`, and the folders above it. Throws UserError.
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// The whole record reaches the file, or (full disk) none of it and a UserError is thrown; a later append
  /// may succeed.
  void append(std::string_view record);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_;
};

}  // namespace titan
