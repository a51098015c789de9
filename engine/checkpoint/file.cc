#include "engine/checkpoint/file.h"

#include "kernels/base/error.h"

#include <fcntl.h>
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
      return "; free some space there or lower checkpoint.keep_latest_k (checkpoints already saved are "
             "untouched)";
    case EDQUOT:
      return "; raise the quota or lower checkpoint.keep_latest_k (checkpoints already saved are untouched)";
    case EFBIG:
      return "; raise the file size limit (ulimit -f) or save from more ranks";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; choose another job.dump_folder or give this user the permission";
    default:
      return "";
  }
}

/// Opens a regular file and gives its size.
int open_to_read(const fs::path& path, int64_t& size) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw_disk_error("open", path, errno);
  struct stat status {};
  const int error = ::fstat(descriptor, &status) != 0 ? errno : S_ISDIR(status.st_mode) ? EISDIR : 0;
  if (error == 0 && S_ISREG(status.st_mode)) {
    size = status.st_size;
    return descriptor;
  }
  ::close(descriptor);
  throw_disk_error("read", path, error != 0 ? error : EINVAL);
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
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw_disk_error("create", path_, errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  announce(hook_, "write", path_);
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_disk_error("write", path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void OutputFile::sync_and_close() {
  announce(hook_, "sync", path_);
  if (::fsync(descriptor_) != 0) throw_disk_error("sync", path_, errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) throw_disk_error("close", path_, errno);
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
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw_disk_error("open", path, errno);
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
