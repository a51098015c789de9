#include "app/trainer/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/base/philox.h"

namespace titan {
namespace {

double uniform(std::uint64_t seed, std::int64_t position) {
  const auto n = static_cast<std::uint64_t>(position);
  const auto words = philox(philox_key(seed, hash_name("sample")),
                            {static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), 0, 0});
  return (static_cast<double>(words[0]) + 0.5) / 4294967296.0;
}

}  // namespace

std::int32_t sample(std::span<const float> logits, double temperature, std::int64_t top_k, std::uint64_t seed,
                    std::int64_t position) {
  const auto best =
      static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  if (temperature <= 0) return best;
  std::vector<std::int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  if (top_k > 0 && top_k < static_cast<std::int64_t>(tokens.size())) {
    const auto larger = [&](std::int32_t a, std::int32_t b) {
      return logits[static_cast<std::size_t>(a)] != logits[static_cast<std::size_t>(b)]
                 ? logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)]
                 : a < b;
    };
    std::partial_sort(tokens.begin(), tokens.begin() + top_k, tokens.end(), larger);
    tokens.resize(static_cast<std::size_t>(top_k));
  }
  std::vector<double> cumulative;
  double total = 0;
  for (const std::int32_t t : tokens) {
    total += std::exp(
        (static_cast<double>(logits[static_cast<std::size_t>(t)]) - logits[static_cast<std::size_t>(best)]) /
        temperature);
    cumulative.push_back(total);
  }
  const auto it = std::upper_bound(cumulative.begin(), cumulative.end(), uniform(seed, position) * total);
  return tokens[std::min<std::size_t>(static_cast<std::size_t>(it - cumulative.begin()), tokens.size() - 1)];
}

}  // namespace titan
