// Buckets: which parameters are stored, gathered and reduced together. The plan is a pure function of the
// program, and it fixes storage: master weights, moments, gradients and gathered weights of a bucket share
// one flat layout.
#pragma once

#include <string>
#include <vector>

#include "engine/program/program.h"

namespace titan {

struct BucketPlan {
  std::string name;
  std::vector<std::size_t> parameters;  ///< indices into Program::parameters, in model order
};

/// One bucket a block, one for the embedding, one for the final norm with the head: TorchTitan's FSDP units.
std::vector<BucketPlan> plan_buckets(const Program& program);

}  // namespace titan
