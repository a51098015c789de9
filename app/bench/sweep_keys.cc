#include "app/bench/sweep_keys.h"

#include <algorithm>

#include "engine/recipe/keys.h"
#include "engine/recipe/recipe.h"
#include "kernels/base/error.h"

namespace titan {

std::vector<Sweep> checked_sweeps(std::vector<Sweep> sweeps, std::span<const std::string> taken) {
  for (Sweep& sweep : sweeps) {
    sweep.key = std::string(current_name(sweep.key));
    if (std::find(taken.begin(), taken.end(), sweep.key) != taken.end())
      throw UsageError(fmt::format("--sweep {}: a bench sets this key itself{}", sweep.key,
                                   sweep.key == "training.steps" ? "; use --steps and --warmup" : ""));
    if (find_key(sweep.key) == nullptr)  // the recipe's reader knows what was meant
      parse_recipe("", "", std::vector<std::string>{fmt::format("--{}={}", sweep.key, sweep.values.front())});
  }
  return sweeps;
}

}  // namespace titan
