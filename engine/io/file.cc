#include "engine/io/file.h"

#include "kernels/base/error.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace titan {
namespace {

namespace fs = std::filesystem;

const char* fix_for(int error) {
  switch (error) {
    case ENOSPC:
      return "; free some space there (checkpoint.keep_latest_k keeps fewer checkpoints) or choose another "
             "folder; "
             "what was complete before is untouched";
    case EDQUOT:
      return "; raise the quota or free some space there (checkpoint.keep_latest_k keeps fewer checkpoints); "
             "what "
             "was complete before is untouched";
    case EFBIG:
      return "; raise the file size limit (ulimit -f) or save from more ranks";
    case EACCES:
    case EPERM:
      return "; give this user the permission, or choose another folder";
    case EROFS:
      return "; choose another folder (job.dump_folder, training.data_cache)";
    default:
      return "";
  }
}

int open_or_throw(std::string_view operation, const fs::path& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (descriptor < 0) throw_disk_error(operation, path, errno);
  return descriptor;
}

/// Opens a regular file and gives its size.
int open_to_read(const fs::path& path, int64_t& size) {
  const int descriptor = open_or_throw("open", path, O_RDONLY);
  struct stat status {};
  const int error = ::fstat(descriptor, &status) != 0 ? errno : S_ISDIR(status.st_mode) ? EISDIR : 0;
  if (error == 0 && S_ISREG(status.st_mode)) {
    size = status.st_size;
    return descriptor;
  }
  ::close(descriptor);
  throw_disk_error("read", path, error != 0 ? error : EINVAL);
}

void write_all(int descriptor, const fs::path& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_disk_error("write", path, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void sync_and_close_or_throw(int& descriptor, const fs::path& path) {
  if (::fsync(descriptor) != 0) throw_disk_error("sync", path, errno);
  if (::close(std::exchange(descriptor, -1)) != 0) throw_disk_error("close", path, errno);
}

void announce(const DiskHook& hook, std::string_view operation, const fs::path& path) {
  if (hook) hook(operation, path);
}

}  // namespace

void throw_disk_error(std::string_view operation, const fs::path& path, int error) {
  throw UserError(
      fmt::format("cannot {} {}: {}{}", operation, path.string(), std::strerror(error), fix_for(error)));
}

OutputFile::OutputFile(fs::path path, DiskHook hook) : path_(std::move(path)), hook_(std::move(hook)) {
  announce(hook_, "create", path_);
  descriptor_ = open_or_throw("create", path_, O_WRONLY | O_CREAT | O_EXCL);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  announce(hook_, "write", path_);
  write_all(descriptor_, path_, bytes);
}

void OutputFile::sync_and_close() {
  announce(hook_, "sync", path_);
  sync_and_close_or_throw(descriptor_, path_);
}

FileWriter::FileWriter(fs::path path)
    : path_(std::move(path)),
      temporary_(path_.string() + ".tmp"),
      descriptor_(open_or_throw("create", temporary_, O_WRONLY | O_CREAT | O_TRUNC)) {}

FileWriter::~FileWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void FileWriter::append(const void* bytes, size_t size) {
  write_all(descriptor_, temporary_, {static_cast<const std::byte*>(bytes), size});
}

void FileWriter::overwrite(int64_t offset, const void* bytes, size_t size) {
  const ssize_t written = ::pwrite(descriptor_, bytes, size, offset);
  if (written < 0) throw_disk_error("write", temporary_, errno);
  TITAN_CHECK_EQ(static_cast<size_t>(written), size);
}

void FileWriter::commit() {
  sync_and_close_or_throw(descriptor_, temporary_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw_disk_error("rename", temporary_, errno);
  sync_directory(path_.parent_path());
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  FileWriter file(path);
  file.append(text.data(), text.size());
  file.commit();
}

SequentialFile::SequentialFile(fs::path path)
    : path_(std::move(path)), descriptor_(open_or_throw("read", path_, O_RDONLY)) {
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL);
}

SequentialFile::~SequentialFile() { ::close(descriptor_); }

size_t SequentialFile::read(char* buffer, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(descriptor_, buffer + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_disk_error("read", path_, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  offset_ += static_cast<int64_t>(done);
  return done;
}

InputFile::InputFile(fs::path path) : path_(std::move(path)), descriptor_(open_to_read(path_, size_)) {}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = ::pread(descriptor_, out.data(), out.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_disk_error("read", path_, errno);
    if (count == 0)
      throw UserError(
          fmt::format("{} ends at byte {}, {} more were expected", path_.string(), offset, out.size()));
    out = out.subspan(static_cast<size_t>(count));
    offset += count;
  }
}

MappedFile::MappedFile(const fs::path& path) {
  int64_t size = 0;
  const int descriptor = open_to_read(path, size);
  size_ = static_cast<size_t>(size);
  void* data = size_ == 0 ? nullptr : ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int error = errno;
  ::close(descriptor);
  if (data == MAP_FAILED) throw_disk_error("map", path, error);
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

FileLock::FileLock(const fs::path& path) : descriptor_(open_or_throw("open lock", path, O_RDWR | O_CREAT)) {
  while (::flock(descriptor_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const int error = errno;
    ::close(descriptor_);
    throw_disk_error("lock", path, error);
  }
}

FileLock::~FileLock() { ::close(descriptor_); }

std::vector<fs::path> matching_paths(const std::string& pattern) {
  glob_t matches{};
  std::vector<fs::path> paths;
  if (::glob(pattern.c_str(), 0, nullptr, &matches) == 0)
    paths.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  ::globfree(&matches);
  return paths;
}

bool path_exists(const fs::path& path) {
  std::error_code error;
  const bool exists = fs::exists(path, error);
  if (error) throw_disk_error("look at", path, error.value());
  return exists;
}

std::string read_text(const fs::path& path) {
  const InputFile file(path);
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void sync_directory(const fs::path& path, const DiskHook& hook) {
  announce(hook, "sync", path);
  const int descriptor = open_or_throw("open", path, O_RDONLY | O_DIRECTORY);
  const int error = ::fsync(descriptor) != 0 ? errno : 0;
  ::close(descriptor);
  if (error != 0) throw_disk_error("sync", path, error);
}

void rename_or_exchange(const fs::path& from, const fs::path& to, const DiskHook& hook) {
  announce(hook, "rename", from);
  if (!path_exists(to)) {
    if (::rename(from.c_str(), to.c_str()) != 0) throw_disk_error("rename", from, errno);
    return;
  }
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno == EINVAL || errno == ENOSYS)
    throw UserError(fmt::format(
        "{} exists and its file system cannot replace a folder in one step; remove it first", to.string()));
  throw_disk_error("rename", from, errno);
}

void create_folder(const fs::path& path, const DiskHook& hook) {
  announce(hook, "mkdir", path);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw_disk_error("create", path, error.value());
}

void remove_tree(const fs::path& path, const DiskHook& hook) {
  announce(hook, "remove", path);
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw_disk_error("remove", path, error.value());
}

int64_t free_bytes(const fs::path& folder) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) throw_disk_error("look at", folder, errno);
  return static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize);
}

}  // namespace titan
