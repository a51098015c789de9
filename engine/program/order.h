// The order of a program: its timeline unrolled, with what each node must wait for.
//
// Two nodes that touch common bytes of the same instance of a value, one of them writing, keep their list
// order (RAW, WAR, WAW). Explicit `after` edges add to that. Nodes of one lane run in list order. Everything
// else may run side by side.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/program/program.h"

namespace titan {

/// For each lane: how many of its commands have finished. Clocks compare lane by lane.
struct LaneClock {
  std::array<std::int32_t, kLanes> finished{};

  void raise(const LaneClock& other) {
    for (int lane = 0; lane < kLanes; ++lane)
      if (other.finished[lane] > finished[lane]) finished[lane] = other.finished[lane];
  }
  void lower(const LaneClock& other) {
    for (int lane = 0; lane < kLanes; ++lane)
      if (other.finished[lane] < finished[lane]) finished[lane] = other.finished[lane];
  }
  /// Whether everything in `other` has finished by this clock.
  bool covers(const LaneClock& other) const {
    for (int lane = 0; lane < kLanes; ++lane)
      if (finished[lane] < other.finished[lane]) return false;
    return true;
  }
};

/// One node of the unrolled list.
struct Occurrence {
  const Node* node = nullptr;
  int step = 0;             ///< index into the timeline
  std::int32_t ticket = 0;  ///< 1-based position in its lane
  LaneClock before;         ///< what has certainly finished when the node starts
  std::vector<Wait>
      waits;  ///< other lanes' tickets that the lane's earlier nodes have not waited for already
  std::uint32_t overwrite =
      0;  ///< bit i: the i-th present operand accumulates and is written for the first time
};

/// The program must outlive the result. Throws InternalError for an `after` edge to a later or unknown node.
std::vector<Occurrence> unroll(const Program& program, const std::vector<TimelineStep>& timeline);
inline std::vector<Occurrence> unroll(const Program& program) { return unroll(program, program.timeline); }

}  // namespace titan
