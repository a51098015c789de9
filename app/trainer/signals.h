// SIGTERM, SIGINT and SIGUSR1 ask a run to save and stop; where there is nothing to save they end it at once.
// Handlers reach nothing but globals, so these are functions on the one state that a process has.
#pragma once

namespace titan {

/// Installs the handlers, for the rest of the process. From here on a signal writes one line to stderr, its
/// name and `consequence` (of static storage), and ends the process with Exit::stopped_by_signal. For phases
/// whose files a kill leaves valid.
void stop_at_once_on_signals(const char* consequence);

/// From here on a first signal is only noted, for stop_signal; a second one ends the process as above.
void note_stop_signals();

/// The signal that was noted, "SIGTERM" for messages, or null.
const char* stop_signal();

/// From here on a log reader that went away (SIGPIPE) and a file-size limit (SIGXFSZ) do not end the process:
/// the write fails, and the run decides what that means.
void ignore_write_signals();

}  // namespace titan
