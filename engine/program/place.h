// Placement: an address for every instance of every value, known before the first step.
//
// Each memory space is one arena. Persistent values come first, shared by name between the programs of a job;
// the transient values of each program lie behind them, overlaid from program to program, since only one runs
// at a time. Two values get common memory only where lane order, def-use and `after` edges already prove that
// all of one's uses are over before the other's first (order.h); placement never adds waits.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/program/program.h"

namespace titan {

inline constexpr std::int64_t kAlignment = 256;  ///< every value starts at a multiple
constexpr std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// The transient memory of one program in one space.
struct TransientReport {
  std::int64_t bytes = 0;        ///< what placement needs
  std::int64_t lower_bound = 0;  ///< largest set of values alive at one node; no placement can need less
  std::array<std::int64_t, kRoles> by_role{};  ///< of that set
  /// (bytes − lower_bound) / lower_bound
  double waste() const {
    return lower_bound == 0 ? 0 : static_cast<double>(bytes - lower_bound) / static_cast<double>(lower_bound);
  }
};

struct SpaceReport {
  std::int64_t arena_bytes = 0;  ///< persistent + the largest program's transients
  std::int64_t persistent_bytes = 0;
  std::array<std::int64_t, kRoles> persistent_by_role{};
  std::vector<TransientReport> programs;
};

class Placement {
 public:
  /// Offset of a value's instance in the arena of its space. Views included.
  std::int64_t offset(int program, ValueId value, int instance) const {
    const ProgramPlaces& p = programs_[static_cast<std::size_t>(program)];
    return p.offsets[p.first_instance[static_cast<std::size_t>(value)] + static_cast<std::size_t>(instance)];
  }
  /// Whether the program uses the value at all (unused values get no memory).
  bool has(int program, ValueId value) const { return offset(program, value, 0) >= 0; }
  const SpaceReport& space(Space s) const { return spaces_[static_cast<std::size_t>(s)]; }

 private:
  friend class Placer;
  struct ProgramPlaces {
    std::vector<std::size_t> first_instance;
    std::vector<std::int64_t> offsets;
  };
  std::vector<ProgramPlaces> programs_;
  std::array<SpaceReport, 2> spaces_;
};

/// Places the programs of one job together. Throws InternalError when two programs disagree about a
/// persistent value.
Placement place(std::span<const Program* const> programs);

/// Checks a placement against the programs' order, pair by pair. Throws InternalError with both values. For
/// tests and debug.
void verify_placement(std::span<const Program* const> programs, const Placement& placement);

}  // namespace titan
