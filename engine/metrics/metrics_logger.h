// Sends the metrics of a step to every output the recipe asks for: the log, metrics.jsonl and TensorBoard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace titan {

struct StepMetrics;
struct ValidationMetrics;
class JsonlWriter;
class TensorboardWriter;

struct MetricsOptions {
  std::filesystem::path dump_folder;  // job.dump_folder
  bool step_lines = true;             // this rank's lines belong in the log
  bool color = false;                 // use_color()
  bool jsonl = true;
  bool tensorboard = false;           // metrics.enable_tensorboard
  std::string save_tb_folder = "tb";  // metrics.save_tb_folder, below dump_folder
  std::optional<int> rank = {};       // with save_for_all_ranks: this rank's own files, rank_N
  int64_t resumed_step = 0;           // the last step that is done; 0 for a new run
};

/// An output that cannot be written (no permission, full disk) is named in one warning; training goes on, and
/// so do the attempts, since a disk may have room again.
class MetricsLogger {
 public:
  explicit MetricsLogger(const MetricsOptions& options);
  ~MetricsLogger();

  void log(const StepMetrics& metrics);
  void log(const ValidationMetrics& metrics);

  /// Where TensorBoard finds this run; empty without TensorBoard output.
  const std::filesystem::path& tensorboard_folder() const { return tensorboard_folder_; }

 private:
  template <class Metrics>
  void write_files(const Metrics& metrics);
  template <class Action>
  void attempt(bool& warned, Action action);

  bool step_lines_;
  bool color_;
  std::filesystem::path tensorboard_folder_;
  std::unique_ptr<JsonlWriter> jsonl_;
  std::unique_ptr<TensorboardWriter> tensorboard_;
  bool jsonl_warned_ = false;
  bool tensorboard_warned_ = false;
};

}  // namespace titan
