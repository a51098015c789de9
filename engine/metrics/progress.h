// Progress of a long piece of work: a bar that redraws itself on a terminal, a plain line at times elsewhere.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <mutex>
#include <string>

#include "engine/metrics/clock.h"

namespace titan {

struct ProgressOptions {
  std::ostream* stream = nullptr;  // standard error when not given
  bool terminal = false;           // redraw in place; without a stream: whether standard error is a terminal
  double interval_seconds = 0.0;   // between two updates; 0: 0.1 on a terminal, 10 elsewhere
  Clock clock = steady_seconds;
};

/// `Tokenizing [##########----------]  50%  19.5MB of 39.0MB, 6.5MB/s, 0:03 left`. Thread-safe.
class ProgressBar {
 public:
  /// `unit` is put right behind the scaled amounts: "B" gives 1.5MB, " tokens" 1.5M tokens. A `total` of 0
  /// means that it is not known.
  ProgressBar(std::string label, int64_t total, std::string unit, const ProgressOptions& options = {});
  /// Removes an unfinished bar, so that an error message starts on a clean line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void advance(int64_t amount);
  /// The last state as a line that stays. Shown even if the work was short.
  void finish();

 private:
  std::string text(double now) const;
  std::string amounts(double now) const;
  void show(const std::string& text);
  void clear();

  std::string label_;
  int64_t total_;
  std::string unit_;
  std::ostream& stream_;
  bool terminal_;
  double interval_;
  Clock clock_;
  double start_;
  double shown_at_;
  int64_t done_ = 0;
  size_t shown_width_ = 0;  // of the bar that is on the terminal now
  std::mutex mutex_;
};

}  // namespace titan
