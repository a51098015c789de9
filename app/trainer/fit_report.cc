#include "app/trainer/fit_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "parallelism/planner/fit.h"

namespace titan {
namespace {

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

}  // namespace

std::string fit_report(std::span<const FitCandidate> candidates, std::int64_t bytes) {
  const FitCandidate* best = best_fit(candidates);
  std::string text = fmt::format("what fits into {} B ({:.2f} GiB)\n", bytes, gib(bytes));
  text += fmt::format("  {:<24} {:>12} {:>16} {:>10} {:>22}\n", "activation_checkpoint", "local batch",
                      "bytes", "GiB", "predicted tokens/s");
  for (const FitCandidate& c : candidates) {
    const std::string tps = c.fits() ? fmt::format("{:.0f}", c.tokens_per_second) : "does not fit";
    text += fmt::format("{} {:<24} {:>12} {:>16} {:>10.3f} {:>22}\n", &c == best ? '*' : ' ', c.name,
                        c.fits() ? fmt::format("{}", c.local_batch_size) : "-", c.bytes, gib(c.bytes), tps);
  }
  if (best == nullptr)
    return text + "nothing fits, not even a batch of one: lower training.seq_len or the model's size\n";
  text += "use";
  for (const std::string& override_text : best->overrides) text += " " + override_text;
  return text + "\n";
}

std::string fit_json(std::span<const FitCandidate> candidates, std::int64_t bytes) {
  nlohmann::ordered_json json;
  json["memory_bytes"] = bytes;
  json["candidates"] = nlohmann::ordered_json::array();
  for (const FitCandidate& c : candidates)
    json["candidates"].push_back({{"name", c.name},
                                  {"fits", c.fits()},
                                  {"local_batch_size", c.local_batch_size},
                                  {"bytes", c.bytes},
                                  {"predicted_step_seconds", c.step_seconds},
                                  {"predicted_tokens_per_second", c.tokens_per_second},
                                  {"overrides", c.overrides}});
  const FitCandidate* best = best_fit(candidates);
  json["best"] =
      best == nullptr ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(best - candidates.data());
  return json.dump(2) + "\n";
}

}  // namespace titan
