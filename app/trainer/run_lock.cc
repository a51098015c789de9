#include "app/trainer/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "kernels/base/error.h"

namespace titan {

RunLock::RunLock(const std::filesystem::path& dump_folder) {
  std::error_code reported_by_the_first_write;
  std::filesystem::create_directories(dump_folder, reported_by_the_first_write);
  descriptor_ = ::open((dump_folder / "run.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  throw UserError(
      fmt::format("another titan train is running in {}; wait until it ends, or set another job.dump_folder",
                  dump_folder.string()));
}

RunLock::~RunLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace titan
