#include "parallelism/passes/buckets.h"

#include <fmt/format.h>

namespace titan {

std::vector<BucketPlan> plan_buckets(const Program& program) {
  std::vector<BucketPlan> plan;
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    const Parameter& p = program.parameters[i];
    std::string name = p.layer >= 0 ? fmt::format("layers.{}", p.layer) : i == 0 ? "embedding" : "head";
    if (plan.empty() || plan.back().name != name) plan.push_back({std::move(name), {}});
    plan.back().parameters.push_back(i);
  }
  return plan;
}

}  // namespace titan
