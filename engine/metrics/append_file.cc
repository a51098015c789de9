#include "engine/metrics/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "kernels/base/error.h"

namespace titan {
namespace {

[[noreturn]] void fail(const char* action, const std::filesystem::path& path, int error) {
  throw UserError(fmt::format("{}: cannot {}: {}", path.string(), action, std::strerror(error)));
}

// Returns 0 or the errno of the write that failed.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), error);
  if (error) fail("create its folder", path_, error.value());
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("open for writing", path_, errno);
}

AppendFile::~AppendFile() { ::close(descriptor_); }

void AppendFile::append(std::string_view record) {
  struct stat before {};
  if (::fstat(descriptor_, &before) != 0) fail("read the size", path_, errno);
  const int error = write_all(descriptor_, record);
  if (error == 0) return;
  // Best effort: a torn record that stays is repaired when the run resumes.
  [[maybe_unused]] const int ignored = ::ftruncate(descriptor_, before.st_size);
  fail("write", path_, error);
}

}  // namespace titan
