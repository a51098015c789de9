// A bench: every combination of swept values is trained for a few steps in a process of its own.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/bench/report.h"
#include "engine/bench/sweep.h"
#include "kernels/base/function_ref.h"

namespace titan {

struct BenchOptions {
  std::filesystem::path executable;    ///< titan itself
  std::string recipe;                  ///< path
  std::vector<std::string> overrides;  ///< of all combinations, "--section.key=value"
  std::vector<Sweep> sweeps;
  int steps = 5, warmup = 2, repeat = 1;
};

/// Trains each combination `repeat` times for warmup + steps steps, on the recipe's data or, when it names
/// none, on text made here; without saves, validation and norms. What cannot run is a trial with a message.
/// `stop` is asked a few times a second; once it says true the running process ends, and the report holds
/// what is done and a note. Throws UsageError when the recipe without swept values is wrong, for unknown
/// swept keys and for those that a bench sets itself.
BenchReport run_bench(const BenchOptions& options, FunctionRef<bool()> stop);

/// Whether a combination was measured.
bool any_ran(const BenchReport& report);

}  // namespace titan
