// What the code under test logs.
#pragma once

#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>

#include "engine/metrics/log.h"

namespace titan::test {

class LogCapture {
 public:
  explicit LogCapture(const LogOptions& options = LogOptions()) : before_(spdlog::default_logger()) {
    setup_logging(options, stream_);
  }
  ~LogCapture() { spdlog::set_default_logger(before_); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  std::string text() const { return stream_.str(); }

 private:
  std::ostringstream stream_;
  std::shared_ptr<spdlog::logger> before_;
};

}  // namespace titan::test
