// Programs that run once: initial values, and what is derived from parameters or constants after an init or a
// load.
#pragma once

#include <span>

#include "engine/model/config.h"
#include "engine/program/program.h"

namespace titan {

/// Program "initialize": fills the master buckets (and moments, and the stop flag) that `of` declares. Input
/// seed [1, 1] i64. Each weight is a pure function of (seed, parameter name, index in the whole parameter):
/// no layout changes it.
Program build_initialize_program(const Program& of, const ModelConfig& config);

/// Program "refresh": the constants and the persistent weights that the given programs read. Never saved,
/// always rebuilt.
Program build_refresh_program(std::span<const Program* const> of, const ModelConfig& config);

}  // namespace titan
