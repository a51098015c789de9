// Options that several commands share, and checks of numbers with messages for people.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "app/trainer/device.h"

namespace titan {

constexpr std::int64_t kMostTokens = 2'147'483'647;  ///< positions are 32-bit integers
constexpr std::int64_t kMostThreads = 4096;

/// An integer in [low, high].
inline CLI::Validator integer_in(std::int64_t low, std::int64_t high) {
  return {[=](const std::string& text) -> std::string {
            std::int64_t number = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
            const bool whole = error == std::errc() && end == text.data() + text.size();
            if (whole && number >= low && number <= high) return "";
            return fmt::format("{}: expected an integer from {} to {}", text, low, high);
          },
          ""};
}

/// A finite number >= 0.
inline CLI::Validator not_negative() {
  return {[](const std::string& text) -> std::string {
            double number = -1;
            if (CLI::detail::lexical_cast(text, number) && std::isfinite(number) && number >= 0) return "";
            return fmt::format("{}: expected a number >= 0", text);
          },
          ""};
}

/// --device and --threads, of commands that have no recipe to say it.
inline void add_device_options(CLI::App& command, DeviceRequest& request) {
  command.add_option("--device", request.device, "auto (a GPU if one can be used), cpu or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  command.add_option("--threads", request.threads, "CPU threads (0: all)")
      ->check(integer_in(0, kMostThreads));
}

}  // namespace titan
