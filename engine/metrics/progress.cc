#include "engine/metrics/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

namespace titan {
namespace {

constexpr int kBarWidth = 20;

// 950B, 19.5MB: decimal prefixes, as disks and token counts use them.
std::string scaled(double amount, const std::string& unit) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  size_t prefix = 0;
  while (amount >= 999.95 && prefix + 1 < std::size(kPrefixes)) {
    amount /= 1000.0;
    ++prefix;
  }
  return fmt::format("{:.{}f}{}{}", amount, prefix == 0 ? 0 : 1, kPrefixes[prefix], unit);
}

std::string duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::min(seconds, 1e9) + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

ProgressBar::ProgressBar(std::string label, int64_t total, std::string unit, const ProgressOptions& options)
    : label_(std::move(label)),
      total_(total),
      unit_(std::move(unit)),
      stream_(options.stream ? *options.stream : std::cerr),
      terminal_(options.stream ? options.terminal : ::isatty(STDERR_FILENO) != 0),
      interval_(options.interval_seconds > 0 ? options.interval_seconds
                : terminal_                  ? 0.1
                                             : 10.0),
      clock_(options.clock),
      start_(clock_()),
      shown_at_(start_) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::advance(int64_t amount) {
  const std::lock_guard lock(mutex_);
  done_ += amount;
  const double now = clock_();
  if (now - shown_at_ < interval_) return;
  shown_at_ = now;
  show(text(now));
}

void ProgressBar::finish() {
  const std::lock_guard lock(mutex_);
  clear();
  stream_ << fmt::format("{} done: {} in {}\n", label_, scaled(static_cast<double>(done_), unit_),
                         duration(clock_() - start_))
          << std::flush;
}

std::string ProgressBar::text(double now) const {
  if (total_ <= 0) return fmt::format("{}  {}", label_, amounts(now));
  const double fraction = std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0.0, 1.0);
  const auto percent = static_cast<int>(100.0 * fraction);
  if (!terminal_) return fmt::format("{} {:3}%  {}", label_, percent, amounts(now));
  const auto filled = static_cast<int>(kBarWidth * fraction);
  return fmt::format("{} [{:#<{}}{:-<{}}] {:3}%  {}", label_, "", filled, "", kBarWidth - filled, percent,
                     amounts(now));
}

std::string ProgressBar::amounts(double now) const {
  const auto done = static_cast<double>(done_);
  const double seconds = now - start_;
  const double rate = seconds > 0 ? done / seconds : 0.0;
  std::string text = scaled(done, unit_);
  if (total_ > 0) text += " of " + scaled(static_cast<double>(total_), unit_);
  if (rate > 0) text += fmt::format(", {}/s", scaled(rate, unit_));
  if (rate > 0 && total_ > done_)
    text += fmt::format(", {} left", duration(static_cast<double>(total_ - done_) / rate));
  return text;
}

void ProgressBar::show(const std::string& text) {
  if (!terminal_) {
    stream_ << text << '\n' << std::flush;
    return;
  }
  // Spaces wipe what a longer line left behind.
  stream_ << fmt::format("\r{:<{}}", text, shown_width_) << std::flush;
  shown_width_ = text.size();
}

void ProgressBar::clear() {
  if (shown_width_ == 0) return;
  stream_ << fmt::format("\r{:<{}}\r", "", shown_width_) << std::flush;
  shown_width_ = 0;
}

}  // namespace titan
