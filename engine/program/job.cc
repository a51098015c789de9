#include "engine/program/job.h"

#include <algorithm>

#include "kernels/base/error.h"

namespace titan {

bool Job::has(std::string_view name) const {
  return std::any_of(programs.begin(), programs.end(), [&](const Program& p) { return p.name == name; });
}

int Job::index(std::string_view name) const {
  const auto it =
      std::find_if(programs.begin(), programs.end(), [&](const Program& p) { return p.name == name; });
  TITAN_CHECK(it != programs.end(), "the job has no program '{}'", name);
  return static_cast<int>(it - programs.begin());
}

void place(Job& job) {
  std::vector<const Program*> programs;
  for (const Program& p : job.programs) programs.push_back(&p);
  job.placement = place(programs);
#ifndef NDEBUG
  verify_placement(programs, job.placement);
#endif
}

}  // namespace titan
