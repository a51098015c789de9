// Files with errors as UserError: what data and checkpoints need of the file system, durable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

/// Called before each operation that changes the disk, with its name (create, write, sync, rename, remove,
/// mkdir) and path. Tests throw DiskError or end the process here to show that no failure loses a checkpoint.
using DiskHook = std::function<void(std::string_view operation, const std::filesystem::path& path)>;

/// Throws UserError: "cannot OPERATION PATH: REASON", with a fix for a full disk, a quota, a limit or missing
/// permission.
[[noreturn]] void throw_disk_error(std::string_view operation, const std::filesystem::path& path, int error);

/// A new file, written from front to back. Throws if it exists.
class OutputFile {
 public:
  OutputFile(std::filesystem::path path, DiskHook hook);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  void write(std::span<const std::byte> bytes);
  void sync_and_close();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  DiskHook hook_;
  int descriptor_;
};

/// A file that becomes `path` when it is whole: writes `path`.tmp, which commit() syncs and renames, and
/// which the destructor removes otherwise.
class FileWriter {
 public:
  explicit FileWriter(std::filesystem::path path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  void append(const void* bytes, size_t size);
  void overwrite(int64_t offset, const void* bytes, size_t size);
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_;
};

void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// A file that is read from front to back.
class SequentialFile {
 public:
  explicit SequentialFile(std::filesystem::path path);
  ~SequentialFile();
  SequentialFile(const SequentialFile&) = delete;
  SequentialFile& operator=(const SequentialFile&) = delete;
  size_t read(char* buffer, size_t size);  ///< fewer bytes than `size` only at the end of the file
  int64_t offset() const { return offset_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_;
  int64_t offset_ = 0;
};

/// A file that is read at explicit offsets; safe from several threads.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  int64_t size() const { return size_; }
  void read(int64_t offset, std::span<std::byte> out) const;  ///< throws if the file ends first
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_;
  int64_t size_;
};

/// A whole file, mapped read-only.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
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
  int descriptor_;
};

/// Paths that match a pattern of the shell, in order; none where nothing does.
std::vector<std::filesystem::path> matching_paths(const std::string& pattern);
bool path_exists(const std::filesystem::path& path);  ///< throws UserError where that cannot be known
std::string read_text(const std::filesystem::path& path);
void sync_directory(const std::filesystem::path& path, const DiskHook& hook = {});
/// Renames `from` to `to`, in one step also where `to` exists (it then ends up at `from`).
void rename_or_exchange(const std::filesystem::path& from, const std::filesystem::path& to,
                        const DiskHook& hook);
void create_folder(const std::filesystem::path& path, const DiskHook& hook = {});  ///< and those above it
void remove_tree(const std::filesystem::path& path, const DiskHook& hook);
int64_t free_bytes(const std::filesystem::path& folder);  ///< that this user may still write

}  // namespace titan
