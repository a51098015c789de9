// Two families of failure. UserError: the user's input, files or machine are at fault, and the message says
// where, what the values are and what to do. InternalError: titan is at fault; TITAN_CHECK prints the
// expression and its values.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace titan {

/// What the process exits with (design: exit codes).
enum class Exit : int { ok = 0, failed = 1, usage = 2, stopped_by_signal = 3 };

/// `message` as a terminal can show it: control characters but the end of a line are written as \xNN, and the
/// middle of a line of more than 1000 bytes is left out. Messages quote what is in files.
std::string readable(const std::string& message);

/// The user can fix this. `what()` is one readable message: what is wrong, where, the values, the fix.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message, Exit exit = Exit::failed)
      : std::runtime_error(readable(message)), exit_(exit) {}
  Exit exit() const { return exit_; }

 private:
  Exit exit_;
};

/// Bad usage: a command line or recipe that can never work. Exit code 2.
class UsageError : public UserError {
 public:
  explicit UsageError(const std::string& message) : UserError(message, Exit::usage) {}
};

/// A bug in titan.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

namespace detail {
[[noreturn]] void check_failed(const char* file, int line, const char* expression, const std::string& detail);
template <class A, class B>
[[noreturn]] void check_op_failed(const char* file, int line, const char* expression, const A& a,
                                  const B& b) {
  check_failed(file, line, expression, fmt::format("{} vs {}", a, b));
}
}  // namespace detail

}  // namespace titan

/// Throws InternalError with the expression, the place and an optional fmt message: TITAN_CHECK(n > 0, "n =
/// {}", n).
#define TITAN_CHECK(condition, ...)                                                                 \
  do {                                                                                              \
    if (!(condition))                                                                               \
      ::titan::detail::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)

#define TITAN_CHECK_OP(a, op, b)                                                                             \
  do {                                                                                                       \
    const auto& titan_check_a = (a);                                                                         \
    const auto& titan_check_b = (b);                                                                         \
    if (!(titan_check_a op titan_check_b))                                                                   \
      ::titan::detail::check_op_failed(__FILE__, __LINE__, #a " " #op " " #b, titan_check_a, titan_check_b); \
  } while (false)
#define TITAN_CHECK_EQ(a, b) TITAN_CHECK_OP(a, ==, b)
#define TITAN_CHECK_LE(a, b) TITAN_CHECK_OP(a, <=, b)
#define TITAN_CHECK_LT(a, b) TITAN_CHECK_OP(a, <, b)
