#include "engine/metrics/flops.h"

#include <cctype>
#include <utility>

namespace titan {
namespace {

// The first match counts, so the variants of a model stand before the model. Names match whole words: an H200
// is no H20 and an RTX A1000 is no A100.
constexpr std::pair<std::string_view, double> kPeaks[] = {
    {"A100", 312e12},    {"A6000", 154.85e12}, {"H100 NVL", 835e12}, {"H100 PCIe", 756e12},
    {"H100", 989e12},    {"H200", 989e12},     {"H20", 148e12},      {"GB300", 2.5e15},
    {"GB200", 2.5e15},   {"B300", 2.25e15},    {"B200", 2.25e15},    {"MI300X", 1300e12},
    {"MI325X", 1300e12}, {"MI355X", 2500e12},  {"MI250X", 191.5e12}, {"L40S", 362e12},
};

bool is_word_at(std::string_view text, size_t position) {
  return position < text.size() && std::isalnum(static_cast<unsigned char>(text[position]));
}

bool contains_words(std::string_view text, std::string_view words) {
  for (size_t at = text.find(words); at != text.npos; at = text.find(words, at + 1)) {
    const bool starts = at == 0 || !is_word_at(text, at - 1);
    if (starts && !is_word_at(text, at + words.size())) return true;
  }
  return false;
}

}  // namespace

double flops_per_token(const TransformerSize& size, int64_t seq_len) {
  const auto matrices = static_cast<double>(size.parameters - size.embedding_parameters);
  const auto attention =
      static_cast<double>(size.layers * size.heads * size.head_dim) * static_cast<double>(seq_len);
  return 6.0 * matrices + 12.0 * attention;
}

std::optional<double> peak_flops(std::string_view device_name) {
  if (contains_words(device_name, "MIG")) return std::nullopt;
  for (const auto& [model, peak] : kPeaks)
    if (contains_words(device_name, model)) return peak;
  return std::nullopt;
}

double tflops(double flops_per_token, double tps) { return flops_per_token * tps / 1e12; }

std::optional<double> mfu(double flops_per_token, double tps, std::optional<double> peak) {
  if (!peak) return std::nullopt;
  return 100.0 * flops_per_token * tps / *peak;
}

}  // namespace titan
