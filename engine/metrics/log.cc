#include "engine/metrics/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "kernels/base/error.h"

namespace titan {
namespace {

// Python's level names: INFO, WARNING, ...
class LevelName : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string_view name = of(message.level);
    out.append(name.data(), name.data() + name.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<LevelName>(); }

 private:
  static std::string_view of(spdlog::level::level_enum level) {
    switch (level) {
      case spdlog::level::trace:
      case spdlog::level::debug:
        return "DEBUG";
      case spdlog::level::warn:
        return "WARNING";
      case spdlog::level::err:
        return "ERROR";
      case spdlog::level::critical:
        return "CRITICAL";
      default:
        return "INFO";
    }
  }
};

spdlog::level::level_enum parse_level(const std::string& name) {
  static constexpr std::pair<std::string_view, spdlog::level::level_enum> kLevels[] = {
      {"debug", spdlog::level::debug},       {"info", spdlog::level::info},
      {"warning", spdlog::level::warn},      {"error", spdlog::level::err},
      {"critical", spdlog::level::critical}, {"off", spdlog::level::off}};
  for (const auto& [level_name, level] : kLevels)
    if (name == level_name) return level;
  throw UsageError(fmt::format("log level '{}': must be debug, info, warning, error, critical or off", name));
}

void set_default_logger(spdlog::sink_ptr sink, const LogOptions& options) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<LevelName>('*').set_pattern("[titan] %Y-%m-%d %H:%M:%S,%e - root - %^%*%$ - %v");
  auto logger = std::make_shared<spdlog::logger>("root", std::move(sink));
  logger->set_formatter(std::move(formatter));
  logger->set_level(parse_level(options.level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace

bool use_color(int descriptor, bool disabled) {
  if (disabled || ::isatty(descriptor) == 0) return false;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return (no_color == nullptr || *no_color == '\0') && (term == nullptr || std::string_view(term) != "dumb");
}

void setup_logging(const LogOptions& options) {
  const bool color = use_color(STDERR_FILENO, options.disable_color_printing);
  auto sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>(color ? spdlog::color_mode::always
                                                                              : spdlog::color_mode::never);
  sink->set_color(spdlog::level::info, "");  // only what deserves attention stands out
  set_default_logger(std::move(sink), options);
}

void setup_logging(const LogOptions& options, std::ostream& stream) {
  set_default_logger(std::make_shared<spdlog::sinks::ostream_sink_mt>(stream), options);
}

}  // namespace titan
