// The training loop: wires recipe, data, programs, checkpoints and metrics together. No mechanism of its own.
#pragma once

#include <memory>
#include <string>

#include "engine/io/file.h"
#include "kernels/base/error.h"

namespace titan {

struct Recipe;

struct TrainOptions {
  bool dry_run = false;  ///< every check, then a report on stdout; nothing runs, nothing is allocated
  DiskHook disk_hook;    ///< sees every disk operation of the run's saves: for tests
};

/// Trains as the recipe says. Returns Exit::ok after the last step, Exit::stopped_by_signal after a save that
/// a signal asked for. Throws UserError for what the user can mend, and for a loss or gradient norm that is
/// not finite.
Exit train(const Recipe& recipe, const TrainOptions& options);

}  // namespace titan
