#include "engine/metrics/log.h"

#include <fcntl.h>
#include <pty.h>
#include <spdlog/spdlog.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <cstdlib>
#include <optional>
#include <sstream>

#include "kernels/base/error.h"
#include "tests/engine/metrics/log_capture.h"

namespace titan {
namespace {

// Sets or removes (nullptr) a variable for the life of a scope.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~ScopedEnv() { set(old_ ? old_->c_str() : nullptr); }

 private:
  void set(const char* value) { value ? setenv(name_, value, 1) : unsetenv(name_); }
  const char* name_;
  std::optional<std::string> old_;
};

TEST_CASE("log lines have TorchTitan's prefix and Python's level names") {
  const test::LogCapture log({.level = "debug"});
  spdlog::info("Training starts at step {}", 1);
  spdlog::warn("careful");
  spdlog::error("broken");
  spdlog::debug("detail");
  const std::string time = R"(\[titan\] \d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - root - )";
  CHECK_THAT(log.text(),
             Catch::Matches(time + "INFO - Training starts at step 1\n" + time + "WARNING - careful\n" +
                            time + "ERROR - broken\n" + time + "DEBUG - detail\n"));
}

TEST_CASE("lower levels than asked for are silent") {
  const test::LogCapture log({.level = "warning"});
  spdlog::info("hello");
  CHECK(log.text().empty());
  spdlog::warn("careful");
  CHECK_FALSE(log.text().empty());
}

TEST_CASE("an unknown level is refused") {
  std::ostringstream stream;
  CHECK_THROWS_AS(setup_logging({.level = "loud"}, stream), UsageError);
}

TEST_CASE("colour is for terminals, unless someone forbids it") {
  int terminal = -1, other_end = -1;
  REQUIRE(openpty(&other_end, &terminal, nullptr, nullptr, nullptr) == 0);
  const int no_terminal = open("/dev/null", O_WRONLY);
  const ScopedEnv allowed("NO_COLOR", nullptr);
  const ScopedEnv term("TERM", "xterm");

  CHECK(use_color(terminal, false));
  CHECK_FALSE(use_color(no_terminal, false));
  CHECK_FALSE(use_color(terminal, true));
  {
    const ScopedEnv forbidden("NO_COLOR", "1");
    CHECK_FALSE(use_color(terminal, false));
  }
  {
    const ScopedEnv dumb("TERM", "dumb");
    CHECK_FALSE(use_color(terminal, false));
  }
  close(terminal), close(other_end), close(no_terminal);
}

}  // namespace
}  // namespace titan
