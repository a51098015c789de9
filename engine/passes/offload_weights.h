// The part of offload_state that brings weights from masters in host memory to the device.
#pragma once

#include "engine/program/program.h"

namespace titan {

/// Replaces the nodes that make weights from masters, which are in host memory by now.
void offload_weights(Program& program);

}  // namespace titan
