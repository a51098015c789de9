#include "engine/data/file_io.h"

#include "kernels/base/error.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace titan {

namespace {

int open_or_throw(std::string_view action, const std::filesystem::path& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (fd < 0) throw_file_error(action, path, errno);
  return fd;
}

void sync_folder(const std::filesystem::path& path) {
  const int fd = open_or_throw("open", path, O_RDONLY | O_DIRECTORY);
  const int failed = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  if (failed) throw_file_error("sync", path, error);
}

std::string_view fix_of(int error) {
  switch (error) {
    case ENOSPC:
      return "; free space there, or choose a cache folder on another disk";
    case EDQUOT:
      return "; your disk quota is used up: free space, or choose another cache folder";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; check the permissions, or choose another folder";
    default:
      return "";
  }
}

}  // namespace

void throw_file_error(std::string_view action, const std::filesystem::path& path, int error) {
  throw UserError(
      fmt::format("cannot {} {}: {}{}", action, path.string(), std::strerror(error), fix_of(error)));
}

SequentialFile::SequentialFile(std::filesystem::path path)
    : path_(std::move(path)), fd_(open_or_throw("read", path_, O_RDONLY)) {
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
}

SequentialFile::~SequentialFile() { ::close(fd_); }

size_t SequentialFile::read(char* buffer, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(fd_, buffer + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_error("read", path_, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  offset_ += static_cast<int64_t>(done);
  return done;
}

FileWriter::FileWriter(std::filesystem::path path)
    : path_(std::move(path)),
      temporary_(path_.string() + ".tmp"),
      fd_(open_or_throw("create", temporary_, O_WRONLY | O_CREAT | O_TRUNC)) {}

FileWriter::~FileWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void FileWriter::append(const void* bytes, size_t size) {
  const char* next = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = ::write(fd_, next, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_file_error("write", temporary_, errno);
    next += written;
    size -= static_cast<size_t>(written);
  }
}

void FileWriter::overwrite(int64_t offset, const void* bytes, size_t size) {
  const ssize_t written = ::pwrite(fd_, bytes, size, offset);
  if (written < 0) throw_file_error("write", temporary_, errno);
  TITAN_CHECK_EQ(static_cast<size_t>(written), size);
}

void FileWriter::commit() {
  if (::fsync(fd_) != 0) throw_file_error("sync", temporary_, errno);
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) throw_file_error("close", temporary_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw_file_error("rename", temporary_, errno);
  sync_folder(path_.parent_path());
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  FileWriter file(path);
  file.append(text.data(), text.size());
  file.commit();
}

FileMapping::FileMapping(const std::filesystem::path& path) {
  const int fd = open_or_throw("read", path, O_RDONLY);
  struct stat status {};
  const int failed = ::fstat(fd, &status);
  size_ = static_cast<size_t>(status.st_size);
  void* address = failed || size_ == 0 ? nullptr : ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
  const int error = errno;
  ::close(fd);
  if (failed || address == MAP_FAILED) throw_file_error("map", path, error);
  data_ = static_cast<const std::byte*>(address);
}

FileMapping::~FileMapping() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

FileLock::FileLock(const std::filesystem::path& path)
    : fd_(open_or_throw("open lock", path, O_RDWR | O_CREAT)) {
  while (::flock(fd_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const int error = errno;
    ::close(fd_);
    throw_file_error("lock", path, error);
  }
}

FileLock::~FileLock() { ::close(fd_); }

void create_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw_file_error("create folder", path, error.value());
}

}  // namespace titan
