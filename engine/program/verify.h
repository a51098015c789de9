// What every program must satisfy. Run after every pass in debug builds and in all tests.
#pragma once

#include "engine/program/program.h"

namespace titan {

/// Checks, over the unrolled list:
///  - operands repeat the dtype, shape and pitch of their values, views lie inside their bases;
///  - every byte is written before it is read, by one node or by several through disjoint views, or
///  accumulated;
///    persistent values and inputs count as written, and weights until shard_parameters gives them storage;
///  - collectives are on the program's lanes, `after` edges point to earlier nodes of the segment.
/// Throws InternalError that names the program, the node as dump prints it, and the value.
void verify(const Program& program);

}  // namespace titan
