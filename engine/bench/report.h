// What a bench found, and how it is told: a table for a terminal, CSV, JSON. html.h makes a page of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/bench/statistics.h"

namespace titan {

/// One combination of the swept values. Numbers that were not measured are zero.
struct Trial {
  enum class Status { ok, out_of_memory, invalid, failed };
  std::vector<std::string> values;  ///< one for each swept key
  Status status = Status::ok;
  std::string message;  ///< one line; empty when ok
  Spread step_seconds;
  double tokens_per_second = 0;  ///< at the median step
  double tflops = 0;             ///< model FLOPs a second at the median step, 1e12
  std::optional<double> mfu;     ///< percent; unknown device: none
  std::optional<double>
      speed_of_light;                ///< percent: the step's GEMMs at their measured peak / the median step
  std::int64_t predicted_bytes = 0;  ///< arenas, as `titan plan` knows them
  std::int64_t peak_resident_bytes = 0;  ///< of the process
};

const char* to_string(Trial::Status status);

struct BenchReport {
  std::string recipe;              ///< its path
  std::string command;             ///< what made the report
  std::string machine;             ///< lines "what   it is", as `titan doctor` prints them
  std::string recipe_toml;         ///< the recipe before any swept value
  std::vector<std::string> keys;   ///< the swept ones
  std::vector<std::string> notes;  ///< sentences
  int steps = 0, warmup = 0, repeat = 1;
  std::vector<Trial> trials;
};

/// "1.25 s", "12.3 ms": in the unit that suits.
std::string seconds_text(double seconds);
/// "1.25 GiB", "640 MiB".
std::string memory_text(std::int64_t bytes);

/// The table's head and rows as cells: swept keys, then status and numbers; n/a where there is none.
std::vector<std::string> table_head(const BenchReport& report);
std::vector<std::string> table_row(const Trial& trial);
/// How many of a report's first columns are text; the others are numbers.
std::size_t text_columns(const BenchReport& report);

/// Aligned, with the messages of what did not run and the notes below.
std::string bench_table(const BenchReport& report);

/// RFC 4180, with a header line; plain numbers in seconds, bytes and percent, empty where there is none.
std::string bench_csv(const BenchReport& report);

/// One object: recipe, command, machine, steps, warmup, repeat, keys, notes, trials.
std::string bench_json(const BenchReport& report);

}  // namespace titan
