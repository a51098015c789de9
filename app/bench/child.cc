#include "app/bench/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>

#include "kernels/base/error.h"

namespace titan {
namespace {

constexpr int kCannotStart = 127;

/// Only what is allowed between fork and exec in a process with threads. Signals are blocked until this
/// process's handlers are gone: they would swallow what is meant for the child.
[[noreturn]] void become(const char* executable, char* const* arguments, int log, pid_t parent,
                         const sigset_t& mask) {
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) std::signal(number, SIG_DFL);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kCannotStart);  // it went away before the line above
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv(executable, arguments);
  _exit(kCannotStart);
}

/// The last "titan: " message of a log.
std::string last_error(const std::filesystem::path& log) {
  std::ifstream file(log);
  std::string message;
  bool in_message = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("titan: ")) {
      message = line.substr(7);
      in_message = true;
    } else if (in_message && line.starts_with("  ")) {
      message += "\n" + line;
    } else {
      in_message = false;
    }
  }
  return first_error_line(message);
}

}  // namespace

std::string first_error_line(const std::string& message) {
  std::istringstream lines(message);
  std::string first, second;
  std::getline(lines, first);
  if (first.ends_with(':') && std::getline(lines, second)) first = second;
  const std::size_t begin = first.find_first_not_of(' ');
  return begin == std::string::npos ? "" : first.substr(begin);
}

ChildResult run_child(const std::filesystem::path& executable, const std::vector<std::string>& arguments,
                      const std::filesystem::path& log, FunctionRef<bool()> stop) {
  const int file = open(log.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) throw UserError(fmt::format("cannot write {}: {}", log.string(), std::strerror(errno)));
  const std::string name = executable.string();
  std::vector<char*> argv{const_cast<char*>(name.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  sigset_t all, mask;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &mask);
  const pid_t parent = getpid(), child = fork();
  if (child == 0) become(name.c_str(), argv.data(), file, parent, mask);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  close(file);
  if (child < 0) throw UserError(fmt::format("cannot start {}: {}", name, std::strerror(error)));

  int status = 0;
  struct rusage usage {};
  for (bool told = false; wait4(child, &status, WNOHANG, &usage) == 0;) {
    if (!told && stop()) told = kill(child, SIGTERM) == 0;
    const struct timespec pause { 0, 20'000'000 };
    nanosleep(&pause, nullptr);
  }
  ChildResult result;
  if (WIFEXITED(status)) result.exit = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.peak_resident_bytes = std::int64_t{usage.ru_maxrss} * 1024;
  result.error = last_error(log);
  if (result.exit == kCannotStart && result.error.empty())
    throw UserError(fmt::format("cannot start {}", name));
  return result;
}

}  // namespace titan
