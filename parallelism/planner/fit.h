// The largest batch, and the cheapest activation checkpointing, that fit into a given memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace titan {

class Mesh;
struct Machine;
struct Recipe;

/// One mode of activation checkpointing at its largest batch.
struct FitCandidate {
  std::string name;                    ///< "memory_budget 0.5"
  std::vector<std::string> overrides;  ///< of the recipe: the mode and the batch
  std::int64_t local_batch_size = 0;   ///< 0: not even the smallest fits
  std::int64_t bytes = 0;              ///< of all arenas; at the smallest batch when that does not fit
  double step_seconds = 0;             ///< predicted
  double tokens_per_second = 0;        ///< predicted

  bool fits() const { return local_batch_size > 0; }
};

/// For none, memory_budget 0.75, 0.5 and 0.25, selective and full, in this order: the largest
/// training.local_batch_size (with a given global_batch_size: of its divisors) whose compiled programs need
/// at most `bytes`. The recipe's own batch and mode do not matter. Memory grows with the batch, so the search
/// halves its range. Throws UserError when the recipe cannot be compiled at any batch.
std::vector<FitCandidate> fit(const Recipe& recipe, const Mesh& mesh, const Machine& machine,
                              std::int64_t bytes);

/// The most predicted tokens a second, of those that fit; null when none does.
const FitCandidate* best_fit(std::span<const FitCandidate> candidates);

/// "24GiB", "24GB", "512M", "1000000" as bytes; K, M, G and T are powers of 1024 unless a plain B follows.
/// Throws UsageError.
std::int64_t parse_memory(const std::string& text);

}  // namespace titan
