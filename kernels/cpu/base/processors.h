// The processors this process may run on.
#pragma once

#include <vector>

namespace titan::cpu {

/// Numbers of the processors in the calling thread's affinity mask, ascending; containers and `taskset`
/// shorten it.
std::vector<int> allowed_processors();

/// Keeps the calling thread on one processor. A refusal by the system is ignored: binding only steadies
/// timing.
void bind_thread(int processor);

}  // namespace titan::cpu
