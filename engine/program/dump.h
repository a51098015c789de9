// Programs as text: one aligned line a node. The format is stable: tests compare it with golden files.
#pragma once

#include <string>

#include "engine/program/program.h"

namespace titan {

class Placement;

struct DumpOptions {
  bool values = false;                   ///< list the base values before the nodes
  bool unroll = false;                   ///< one line an occurrence: micro-batch, slot, waits, first writes
  const Placement* placement = nullptr;  ///< print arena offsets
  int program_index = 0;                 ///< this program's place in the placement
};

std::string dump(const Program& program, const DumpOptions& options = {});

/// One node: "compute L03 forward rms_norm sum=… y=… <- x=… weight=… epsilon=1e-05".
std::string dump_node(const Program& program, const Node& node);

}  // namespace titan
