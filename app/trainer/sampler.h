// Picks the next token from logits.
#pragma once

#include <cstdint>
#include <span>

namespace titan {

/// Temperature 0: the largest logit, the first of equals. Otherwise softmax(logits / temperature) over the
/// top_k largest (0: all), with a random number that is a pure function of (seed, position).
std::int32_t sample(std::span<const float> logits, double temperature, std::int64_t top_k, std::uint64_t seed,
                    std::int64_t position);

}  // namespace titan
