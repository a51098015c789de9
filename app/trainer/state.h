// The state of a model in an executor, as checkpoints see it: which pieces this rank stores, and where they
// are in memory.
#pragma once

#include <vector>

#include "engine/checkpoint/load.h"
#include "engine/checkpoint/save.h"

namespace titan {

class Executor;
struct Job;

/// Parameters, and the moments where the job's programs have them, of every parameter of this rank.
/// Pointers are into the executor's memory, which must be the host's.
std::vector<StateTensor> stored_state(const Job& job, const Executor& executor);
/// The same tensors where the last run of "train_staging" has copied them: as they were before that step.
std::vector<StateTensor> staged_state(const Job& job, const Executor& executor);
std::vector<WantedTensor> wanted_state(const Job& job, const Executor& executor);
/// Without memory to load into, for check_checkpoint.
std::vector<WantedTensor> wanted_state(const Job& job);

}  // namespace titan
