#include "engine/metrics/jsonl.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>

#include "engine/metrics/step_metrics.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

namespace fs = std::filesystem;

// Builds one flat object. fmt prints the shortest digits that read back to the same double, whatever the
// locale.
class JsonLine {
 public:
  explicit JsonLine(std::string_view kind) : text_(fmt::format(R"({{"kind":"{}")", kind)) {}

  JsonLine& add(std::string_view key, int64_t value) { return append(key, fmt::format("{}", value)); }
  JsonLine& add(std::string_view key, double value) { return append(key, number(value)); }
  JsonLine& add(std::string_view key, const std::optional<double>& value) {
    return value ? add(key, *value) : append(key, "null");
  }
  /// An object {"NAME":value,...}; nothing if it is empty. Names need no escapes.
  JsonLine& add(std::string_view key, const std::vector<ParameterNorms>& norms,
                double ParameterNorms::*member) {
    if (norms.empty()) return *this;
    std::string object;
    for (const ParameterNorms& of : norms)
      object += fmt::format(R"({}"{}":{})", object.empty() ? "{" : ",", of.name, number(of.*member));
    return append(key, object + "}");
  }
  std::string finish() const { return text_ + "}"; }

 private:
  static std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }
  JsonLine& append(std::string_view key, std::string_view value) {
    text_ += fmt::format(R"(,"{}":{})", key, value);
    return *this;
  }
  std::string text_;
};

// Whether a line of the file belongs to the run as it stood after `step`.
bool belongs(const std::string& line, int64_t step) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return false;
  const auto found = json.find("step");
  return found == json.end() || !found->is_number_integer() || found->get<int64_t>() <= step;
}

struct Lines {
  std::string kept;
  bool changed = false;
};

Lines keep_until(std::istream& file, int64_t step) {
  Lines lines;
  for (std::string line; std::getline(file, line);) {
    const bool keep = belongs(line, step);
    const bool has_end = !file.eof();
    if (keep) lines.kept += line + "\n";
    lines.changed |= !keep || !has_end;
  }
  return lines;
}

}  // namespace

std::string to_json(const StepMetrics& m) {
  return JsonLine("train")
      .add("step", m.step)
      .add("loss", m.loss)
      .add("max_loss", m.max_loss)
      .add("grad_norm", m.grad_norm)
      .add("lr", m.lr)
      .add("tokens_seen", m.tokens_seen)
      .add("clipped_steps", m.clipped_steps)
      .add("clipped_steps_total", m.clipped_steps_total)
      .add("memory_bytes", m.memory_bytes)
      .add("memory_percent", m.memory_percent)
      .add("beside_arena_gib", m.beside_arena_gib)
      .add("tps", m.tps)
      .add("tflops", m.tflops)
      .add("mfu", m.mfu)
      .add("speed_of_light", m.speed_of_light)
      .add("end_to_end_seconds", m.end_to_end_seconds)
      .add("data_loading_seconds", m.data_loading_seconds)
      .add("gradient_norms", m.norms, &ParameterNorms::gradient)
      .add("weight_norms", m.norms, &ParameterNorms::weight)
      .finish();
}

std::string to_json(const ValidationMetrics& m) {
  return JsonLine("validation")
      .add("step", m.step)
      .add("loss", m.loss)
      .add("memory_bytes", m.memory_bytes)
      .add("memory_percent", m.memory_percent)
      .add("tps", m.tps)
      .finish();
}

void rewind_jsonl(const fs::path& path, int64_t step) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return;  // new, or a device
  std::ifstream file(path, std::ios::binary);
  const Lines lines = keep_until(file, step);
  if (file.bad()) throw UserError(fmt::format("{}: cannot read", path.string()));
  if (!lines.changed) return;

  const fs::path rewritten = path.string() + ".tmp";
  fs::remove(rewritten, error);  // a leftover of a crash
  AppendFile(rewritten).append(lines.kept);
  fs::rename(rewritten, path, error);
  if (error) throw UserError(fmt::format("{}: cannot replace: {}", path.string(), error.message()));
}

JsonlWriter::JsonlWriter(const fs::path& path, int64_t resumed_step)
    : file_((rewind_jsonl(path, resumed_step), path)) {}

}  // namespace titan
