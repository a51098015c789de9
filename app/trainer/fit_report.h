// `titan plan --fit` as text and JSON.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace titan {

struct FitCandidate;

/// A line a candidate, the best marked, and the overrides that make it.
std::string fit_report(std::span<const FitCandidate> candidates, std::int64_t bytes);
/// memory_bytes, candidates, and best: the index of the best candidate or null.
std::string fit_json(std::span<const FitCandidate> candidates, std::int64_t bytes);

}  // namespace titan
