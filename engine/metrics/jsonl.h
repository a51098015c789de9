// metrics.jsonl: one JSON object a line, the history of a run across its restarts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/metrics/append_file.h"

namespace titan {

struct StepMetrics;
struct ValidationMetrics;

/// One line without its end: {"kind":"train","step":1,"loss":8.05,...} and {"kind":"validation",...}. Numbers
/// read back to the same double; unknown and non-finite ones are null. With norms of parameters a line has
/// "gradient_norms" and "weight_norms", objects of name and value.
std::string to_json(const StepMetrics& metrics);
std::string to_json(const ValidationMetrics& metrics);

/// Prepares a file for a run that continues after `step`: lines of later steps (they will be written again)
/// and lines that are no JSON (torn by a crash) go, all others stay as they are. Atomic. Throws UserError.
void rewind_jsonl(const std::filesystem::path& path, int64_t step);

class JsonlWriter {
 public:
  /// `resumed_step`: the last step that is done, 0 for a new run. Throws UserError.
  JsonlWriter(const std::filesystem::path& path, int64_t resumed_step);

  /// Throws UserError; the file then still holds whole lines only.
  void write(const StepMetrics& metrics) { file_.append(to_json(metrics) + "\n"); }
  void write(const ValidationMetrics& metrics) { file_.append(to_json(metrics) + "\n"); }

 private:
  AppendFile file_;
};

}  // namespace titan
