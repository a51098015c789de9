// The file operations that token shards and their manifests need, with every failure as a UserError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace titan {

/// "cannot <action> <path>: <reason>", with the fix for a full disk.
[[noreturn]] void throw_file_error(std::string_view action, const std::filesystem::path& path, int error);

/// A file open for reading.
class SequentialFile {
 public:
  explicit SequentialFile(std::filesystem::path path);
  ~SequentialFile();
  SequentialFile(const SequentialFile&) = delete;
  SequentialFile& operator=(const SequentialFile&) = delete;

  /// Up to `size` bytes; fewer only at the end of the file.
  size_t read(char* buffer, size_t size);
  int64_t offset() const { return offset_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_;
  int64_t offset_ = 0;
};

/// Writes `path`.tmp; only commit() makes it `path`. Otherwise the destructor removes it.
class FileWriter {
 public:
  explicit FileWriter(std::filesystem::path path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void append(const void* bytes, size_t size);
  void overwrite(int64_t offset, const void* bytes, size_t size);
  /// Syncs the file, renames it, syncs its folder.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_;
};

void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// A whole file, mapped read-only.
class FileMapping {
 public:
  explicit FileMapping(const std::filesystem::path& path);
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Held by one process at a time; another waits in the constructor. Released when its process ends, however
/// it ends.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_;
};

void create_folder(const std::filesystem::path& path);

}  // namespace titan
