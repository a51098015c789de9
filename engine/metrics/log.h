// Logging: everything goes to stderr as `[titan] 2025-01-31 12:00:00,123 - root - INFO - message`,
// TorchTitan's format, through spdlog's default logger.
#pragma once

#include <iosfwd>
#include <string>

namespace titan {

struct LogOptions {
  std::string level = "info";           // debug, info, warning, error, critical or off
  bool disable_color_printing = false;  // metrics.disable_color_printing
};

/// Whether to colour what goes to file descriptor `descriptor`: it is a terminal that knows colours, and
/// neither the recipe nor the environment (NO_COLOR, see no-color.org) forbids it.
bool use_color(int descriptor, bool disabled);

/// Makes spdlog's default logger. Throws UsageError for an unknown level.
void setup_logging(const LogOptions& options);

/// The same to a stream, without colour, for tests.
void setup_logging(const LogOptions& options, std::ostream& stream);

}  // namespace titan
