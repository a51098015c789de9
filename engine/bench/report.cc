#include "engine/bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/bench/chart.h"

namespace titan {
namespace {

std::string percent(const std::optional<double>& value) {
  return value ? fmt::format("{:.1f} %", *value) : "n/a";
}

std::string padded(const std::string& text, std::size_t width, bool left) {
  return left ? fmt::format("{:<{}}", text, width) : fmt::format("{:>{}}", text, width);
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) line += ',';
    line += csv_field(fields[i]);
  }
  return line + "\r\n";
}

nlohmann::json json_of(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

std::string label(const BenchReport& report, const Trial& trial) {
  std::string text;
  for (std::size_t i = 0; i < trial.values.size(); ++i)
    text += fmt::format("{}{}={}", i == 0 ? "" : " ", report.keys[i], trial.values[i]);
  return text.empty() ? "the recipe" : text;
}

}  // namespace

const char* to_string(Trial::Status status) {
  switch (status) {
    case Trial::Status::ok:
      return "ok";
    case Trial::Status::out_of_memory:
      return "out of memory";
    case Trial::Status::invalid:
      return "invalid";
    case Trial::Status::failed:
      return "failed";
  }
  return "";
}

std::string seconds_text(double seconds) {
  if (seconds >= 100) return fmt::format("{:.0f} s", seconds);
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 0.1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds >= 1e-3) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::string memory_text(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= std::int64_t{1} << 30) return fmt::format("{:.2f} GiB", value / (1 << 30));
  return fmt::format("{:.1f} MiB", value / (1 << 20));
}

std::vector<std::string> table_head(const BenchReport& report) {
  std::vector<std::string> head = report.keys;
  for (const char* name : {"status", "step", "min", "max", "tokens/s", "TFLOP/s", "MFU", "speed of light",
                           "planned memory", "peak memory"})
    head.emplace_back(name);
  return head;
}

std::size_t text_columns(const BenchReport& report) { return report.keys.size() + 1; }

std::vector<std::string> table_row(const Trial& t) {
  std::vector<std::string> row = t.values;
  row.emplace_back(to_string(t.status));
  const std::string none = "n/a";
  if (t.status == Trial::Status::ok) {
    for (const double seconds : {t.step_seconds.median, t.step_seconds.min, t.step_seconds.max})
      row.push_back(seconds_text(seconds));
    row.push_back(chart_number(t.tokens_per_second));
    row.push_back(fmt::format("{:.3g}", t.tflops));
    row.push_back(percent(t.mfu));
    row.push_back(percent(t.speed_of_light));
  } else {
    row.resize(row.size() + 7, none);
  }
  row.push_back(t.predicted_bytes > 0 ? memory_text(t.predicted_bytes) : none);
  row.push_back(t.peak_resident_bytes > 0 ? memory_text(t.peak_resident_bytes) : none);
  return row;
}

std::string bench_table(const BenchReport& report) {
  std::vector<std::vector<std::string>> rows{table_head(report)};
  for (const Trial& trial : report.trials) rows.push_back(table_row(trial));
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += fmt::format("{}{}", i == 0 ? "" : "  ", padded(row[i], widths[i], i < text_columns(report)));
    text += line + "\n";
  }
  for (const Trial& trial : report.trials)
    if (!trial.message.empty())
      text += fmt::format("{}: {}: {}\n", label(report, trial), to_string(trial.status), trial.message);
  for (const std::string& note : report.notes) text += note + "\n";
  return text;
}

std::string bench_csv(const BenchReport& report) {
  std::vector<std::string> head = report.keys;
  for (const char* name :
       {"status", "message", "steps", "step_seconds_median", "step_seconds_min", "step_seconds_quarter",
        "step_seconds_three_quarters", "step_seconds_max", "tokens_per_second", "tflops", "mfu_percent",
        "speed_of_light_percent", "planned_bytes", "peak_resident_bytes"})
    head.emplace_back(name);
  std::string text = csv_line(head);
  for (const Trial& t : report.trials) {
    const bool ok = t.status == Trial::Status::ok;
    const auto number = [&](double value) { return ok ? fmt::format("{}", value) : std::string(); };
    const auto optional = [](const std::optional<double>& v) { return v ? fmt::format("{}", *v) : ""; };
    const auto bytes = [](std::int64_t b) { return b > 0 ? fmt::format("{}", b) : ""; };
    std::vector<std::string> fields = t.values;
    fields.insert(fields.end(),
                  {to_string(t.status), t.message, ok ? fmt::format("{}", t.step_seconds.count) : "",
                   number(t.step_seconds.median), number(t.step_seconds.min), number(t.step_seconds.quarter),
                   number(t.step_seconds.three_quarters), number(t.step_seconds.max),
                   number(t.tokens_per_second), number(t.tflops), optional(t.mfu), optional(t.speed_of_light),
                   bytes(t.predicted_bytes), bytes(t.peak_resident_bytes)});
    text += csv_line(fields);
  }
  return text;
}

std::string bench_json(const BenchReport& report) {
  nlohmann::ordered_json json;
  json["recipe"] = report.recipe;
  json["command"] = report.command;
  json["machine"] = report.machine;
  json["steps"] = report.steps;
  json["warmup"] = report.warmup;
  json["repeat"] = report.repeat;
  json["keys"] = report.keys;
  json["notes"] = report.notes;
  json["trials"] = nlohmann::ordered_json::array();
  for (const Trial& t : report.trials) {
    nlohmann::ordered_json trial;
    trial["values"] = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < t.values.size(); ++i) trial["values"][report.keys[i]] = t.values[i];
    trial["status"] = to_string(t.status);
    if (!t.message.empty()) trial["message"] = t.message;
    if (t.status == Trial::Status::ok) {
      const Spread& s = t.step_seconds;
      trial["step_seconds"] = {{"count", s.count},
                               {"min", s.min},
                               {"quarter", s.quarter},
                               {"median", s.median},
                               {"three_quarters", s.three_quarters},
                               {"max", s.max}};
      trial["tokens_per_second"] = t.tokens_per_second;
      trial["tflops"] = t.tflops;
      trial["mfu_percent"] = json_of(t.mfu);
      trial["speed_of_light_percent"] = json_of(t.speed_of_light);
    }
    if (t.predicted_bytes > 0) trial["planned_bytes"] = t.predicted_bytes;
    if (t.peak_resident_bytes > 0) trial["peak_resident_bytes"] = t.peak_resident_bytes;
    json["trials"].push_back(std::move(trial));
  }
  // Messages may quote bytes of files that are not UTF-8.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace titan
