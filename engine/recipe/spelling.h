// "Did you mean": the known name nearest to a misspelt one.
#pragma once

#include <span>
#include <string_view>

namespace titan {

/// The candidate with the fewest single-character edits from `word`, or empty when none is near enough to be
/// meant.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace titan
