// SIGTERM, SIGINT and SIGUSR1 ask a run to save and stop at the next step boundary; a second one ends the
// process at once.
#pragma once

namespace titan {

/// Installs the handlers for its lifetime. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool received() const;
  /// "SIGTERM", for messages.
  const char* name() const;
};

/// From here on a log reader that went away (SIGPIPE) and a file-size limit (SIGXFSZ) do not end the process:
/// the write fails, and the run decides what that means.
void ignore_write_signals();

}  // namespace titan
