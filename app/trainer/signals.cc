#include "app/trainer/signals.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>

#include "kernels/base/error.h"

namespace titan {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGUSR1};

// Handlers reach nothing but globals, may run in several threads at once, and may not wait.
std::atomic<int> g_noted{0};
std::atomic<const char*> g_consequence{nullptr};  ///< of a first signal; null: it is noted
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

const char* name_of(int number) {
  switch (number) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    default:
      return "SIGUSR1";
  }
}

/// One line, in one write: nothing else is allowed in a handler.
[[noreturn]] void end_process(int number, const char* consequence) {
  char line[256];
  std::size_t length = 0;
  for (const char* part : {"titan: ", name_of(number), ": ", consequence, "\n"}) {
    const std::size_t count = std::min(std::strlen(part), sizeof line - length);
    std::memcpy(line + length, part, count);
    length += count;
  }
  [[maybe_unused]] const ssize_t lost_with_the_log = ::write(STDERR_FILENO, line, length);
  _exit(static_cast<int>(Exit::stopped_by_signal));
}

extern "C" void on_stop_signal(int number) {
  if (const char* consequence = g_consequence) end_process(number, consequence);
  if (int none = 0; !g_noted.compare_exchange_strong(none, number))
    end_process(number, "the second signal: stopped at once, without a save");
}

}  // namespace

void stop_at_once_on_signals(const char* consequence) {
  g_consequence = consequence;
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  for (const int number : kSignals) sigaction(number, &action, nullptr);
}

void note_stop_signals() {
  g_noted = 0;
  g_consequence = nullptr;
}

const char* stop_signal() { return g_noted == 0 ? nullptr : name_of(g_noted); }

void ignore_write_signals() {
  for (const int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_IGN);
}

}  // namespace titan
