// Another process of an executable: started, waited for, measured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/base/function_ref.h"

namespace titan {

struct ChildResult {
  int exit = -1;   ///< exit status; −1 when a signal ended it
  int signal = 0;  ///< that signal
  std::int64_t peak_resident_bytes = 0;
  std::string error;  ///< what it printed last as "titan: …", on one line; empty if nothing
};

/// Runs `executable` with `arguments`; stdout and stderr go to the file `log`. While it runs, `stop` is asked
/// a few times a second; once it says true the child gets SIGTERM. It does not outlive this process. Throws
/// UserError when it cannot be started.
ChildResult run_child(const std::filesystem::path& executable, const std::vector<std::string>& arguments,
                      const std::filesystem::path& log, FunctionRef<bool()> stop);

/// Of a message of several lines the first that says what is wrong, not the headline above it.
std::string first_error_line(const std::string& message);

}  // namespace titan
