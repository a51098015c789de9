#include "app/trainer/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include "kernels/base/error.h"

namespace titan {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGUSR1};
std::atomic<int> g_received{0};  // handlers reach nothing but globals, and may run in several threads at once
static_assert(std::atomic<int>::is_always_lock_free);  // a handler may not wait

extern "C" void on_stop_signal(int number) {
  int none = 0;
  if (!g_received.compare_exchange_strong(none, number)) _exit(static_cast<int>(Exit::stopped_by_signal));
}

}  // namespace

StopSignals::StopSignals() {
  g_received = 0;
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  for (const int number : kSignals) sigaction(number, &action, nullptr);
}

StopSignals::~StopSignals() {
  for (const int number : kSignals) std::signal(number, SIG_DFL);
}

bool StopSignals::received() const { return g_received != 0; }

const char* StopSignals::name() const {
  switch (g_received) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return "no signal";
  }
}

void ignore_write_signals() {
  for (const int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_IGN);
}

}  // namespace titan
