// Steps that succeed on all ranks or fail on all.
#pragma once

#include "engine/checkpoint/coordinator.h"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace titan {

/// Runs `work` on every rank. Rank 0 gets all results in rank order, the others nothing. If it threw on any
/// rank, every rank throws: the rank to blame its own exception, the others UserError, or DamagedCheckpoint
/// if that was the worst.
std::vector<std::string> run_on_all(Coordinator& coordinator, std::chrono::seconds timeout,
                                    const std::function<std::string()>& work);

}  // namespace titan
