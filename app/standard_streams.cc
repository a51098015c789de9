#include "app/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "kernels/base/error.h"

namespace titan {

void occupy_standard_descriptors() {
  // open() takes the lowest free number; read-only, so that writing is an error and not a silent loss.
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) return;
}

void finish_output() {
  const bool failed_before = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !failed_before) return;
  throw UserError(fmt::format("the output is incomplete: cannot write to stdout: {}", std::strerror(errno)));
}

}  // namespace titan
