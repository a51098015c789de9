// stage_state: the training step that also copies the state of the run away, for a save in the background.
//
// The copies read what the step before left, on a lane of their own, while forward and backward run. They
// need no edges but those that every program has: a bucket's update writes what its copies read, so it waits
// for them (write after read), and nothing else does.
#pragma once

#include "engine/program/program.h"

namespace titan {

/// "NAME_staging": the training program NAME with a segment "stage" in front that copies master and moments
/// of every bucket into persistent values of the same layout in host memory. State that is there already is
/// copied by the host lane, behind the casts that forward waits for.
Program stage_state(Program train);

}  // namespace titan
