// The swept keys against the table of keys.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/bench/sweep.h"

namespace titan {

/// The sweeps under their keys' current names. Throws UsageError for a key that is unknown or one of `taken`.
std::vector<Sweep> checked_sweeps(std::vector<Sweep> sweeps, std::span<const std::string> taken);

}  // namespace titan
