// shard_parameters: gives every parameter its storage. The builder's weights become views of buckets that are
// cast (and, with more ranks, gathered) from f32 master buckets. One path at any number of ranks, so mixed
// precision cannot depend on sharding.
#pragma once

#include <string>
#include <vector>

#include "engine/program/program.h"
#include "parallelism/passes/buckets.h"

namespace titan {

/// How long a bucket's weights in the compute dtype stay.
enum class Residency {
  per_use,     ///< made in each segment that uses them, freed after it: fsdp_reshard_after_forward = always
  per_step,    ///< made once a step, in segment "gather"
  persistent,  ///< made by the job's refresh program: generation
};

struct ShardOptions {
  Residency residency = Residency::per_step;
  /// Parameters whose name contains one of these get no weight decay.
  std::vector<std::string> no_decay = {};
  /// Weights are never the master itself, which is to be in other memory: f32 weights are copies of it.
  bool weights_apart = false;
};

/// Declares master buckets (and, in programs with gradients, gradient and moment buckets), moves weights and
/// gradients into bucket storage, and inserts the casts. Weights in f32, and tables that only Embedding
/// reads, are the master itself, unless `weights_apart`.
Program shard_parameters(Program program, const std::vector<BucketPlan>& plan, const ShardOptions& options);

}  // namespace titan
