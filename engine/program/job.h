// A job: the programs of one rank that share parameters, placed together in one arena.
#pragma once

#include <string_view>
#include <vector>

#include "engine/program/place.h"
#include "engine/program/program.h"

namespace titan {

struct Job {
  std::vector<Program> programs;
  Placement placement;

  bool has(std::string_view program) const;
  /// Throws InternalError when there is none.
  int index(std::string_view program) const;
  const Program& program(std::string_view name) const {
    return programs[static_cast<std::size_t>(index(name))];
  }
};

/// Places the job's programs together (and checks the result in debug builds).
void place(Job& job);

}  // namespace titan
