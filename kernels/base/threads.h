// Starting threads: the system may refuse.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "kernels/base/error.h"

namespace titan {

/// A `Thread` (std::thread or std::jthread) that runs `work`. Throws UserError when the system starts no
/// more.
template <class Thread = std::thread, class Work>
Thread start_thread(Work&& work) {
  try {
    return Thread(std::forward<Work>(work));
  } catch (const std::system_error& error) {
    throw UserError(fmt::format(
        "the system starts no more threads: {}; see `ulimit -u`, `ulimit -v` and the limits of the "
        "container, or use fewer (debug.threads, --threads)",
        error.what()));
  }
}

}  // namespace titan
