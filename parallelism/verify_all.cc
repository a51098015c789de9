#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/program/dump.h"
#include "engine/program/order.h"
#include "kernels/base/error.h"
#include "parallelism/compile.h"

namespace titan {
namespace {

/// What must be equal between the ranks of one collective.
std::string signature(const Op& op) {
  std::string text = fmt::format("{} {}", name_of(op), to_string(axis_of(op)));
  if (const auto* gather = std::get_if<AllGather>(&op))
    text += fmt::format(" {} B a rank", gather->shard.bytes());
  if (const auto* scatter = std::get_if<ReduceScatter>(&op))
    text += fmt::format(" {} {} a rank", scatter->shard.elements(), to_string(scatter->full.dtype));
  if (const auto* reduce = std::get_if<AllReduce>(&op))
    text += fmt::format(" {} {} {}", reduce->x.elements(), to_string(reduce->x.dtype),
                        to_string(reduce->reduction));
  return text;
}

/// Runs all ranks in lock-step: a lane's next node starts when its waits are met; a collective when all of
/// its ranks are there.
class LockStep {
 public:
  LockStep(std::span<const Program* const> programs, FunctionRef<std::vector<int>(int, Axis)> axis_peers)
      : peers_(axis_peers) {
    for (const Program* program : programs) {
      Rank rank{.program = program, .list = unroll(*program)};
      for (std::size_t i = 0; i < rank.list.size(); ++i)
        rank.lanes[static_cast<std::size_t>(rank.list[i].node->lane)].push_back(i);
      ranks_.push_back(std::move(rank));
    }
  }

  void run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int r = 0; r < static_cast<int>(ranks_.size()); ++r)
        for (int lane = 0; lane < kLanes; ++lane)
          while (advance(r, lane)) moved = true;
    }
    report_stuck();
  }

 private:
  struct Rank {
    const Program* program;
    std::vector<Occurrence> list;
    std::array<std::vector<std::size_t>, kLanes> lanes{};
    std::array<std::size_t, kLanes> done{};
  };

  const Occurrence* next(int rank, int lane) const {
    const Rank& r = ranks_[static_cast<std::size_t>(rank)];
    const std::vector<std::size_t>& queue = r.lanes[static_cast<std::size_t>(lane)];
    const std::size_t position = r.done[static_cast<std::size_t>(lane)];
    return position < queue.size() ? &r.list[queue[position]] : nullptr;
  }

  bool ready(int rank, const Occurrence& o) const {
    const Rank& r = ranks_[static_cast<std::size_t>(rank)];
    return std::all_of(o.waits.begin(), o.waits.end(), [&](const Wait& w) {
      return r.done[static_cast<std::size_t>(w.lane)] >= static_cast<std::size_t>(w.ticket);
    });
  }

  bool advance(int rank, int lane) {
    const Occurrence* o = next(rank, lane);
    if (o == nullptr || !ready(rank, *o)) return false;
    if (!is_collective(o->node->op)) {
      ++ranks_[static_cast<std::size_t>(rank)].done[static_cast<std::size_t>(lane)];
      return true;
    }
    const std::vector<int> group = peers_(rank, axis_of(o->node->op));
    const bool exchange = std::holds_alternative<Exchange>(o->node->op);
    const std::vector<int> meeting = exchange ? partners(rank, *o, group) : group;
    for (const int other : meeting)
      if (!arrived(other, lane, *o, rank)) return false;
    if (exchange) check_exchange(rank, lane, meeting, group);
    for (const int other : meeting)
      ++ranks_[static_cast<std::size_t>(other)].done[static_cast<std::size_t>(lane)];
    return true;
  }

  /// All ranks that must be in an exchange for it to finish: peers of peers, until none is new.
  std::vector<int> partners(int rank, const Occurrence& first, const std::vector<int>& group) const {
    std::vector<int> found{rank};
    const int lane = static_cast<int>(first.node->lane);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Occurrence* o = next(found[i], lane);
      const auto* exchange = o == nullptr ? nullptr : std::get_if<Exchange>(&o->node->op);
      if (exchange == nullptr) continue;
      for (const std::vector<int>* list : {&exchange->send_peers, &exchange->recv_peers})
        for (const int peer : *list) {
          const int global = group.at(static_cast<std::size_t>(peer));
          if (std::find(found.begin(), found.end(), global) == found.end()) found.push_back(global);
        }
    }
    return found;
  }

  /// Whether `other` stands at the matching node. Standing at another collective of this axis and lane is an
  /// error.
  bool arrived(int other, int lane, const Occurrence& mine, int rank) const {
    const Occurrence* theirs = next(other, lane);
    if (theirs == nullptr) {
      throw InternalError(
          fmt::format("rank {} waits for rank {}, which has no collective left on this lane\n  {}", rank,
                      other, line(rank, mine)));
    }
    if (!is_collective(theirs->node->op) || axis_of(theirs->node->op) != axis_of(mine.node->op)) return false;
    if (signature(theirs->node->op) != signature(mine.node->op))
      throw InternalError(fmt::format("ranks {} and {} disagree: {} and {}\n  {}\n  {}", rank, other,
                                      signature(mine.node->op), signature(theirs->node->op), line(rank, mine),
                                      line(other, *theirs)));
    return ready(other, *theirs);
  }

  /// Every message has a receiver of the same size, in order for each pair.
  void check_exchange(int rank, int lane, const std::vector<int>& meeting,
                      const std::vector<int>& group) const {
    std::map<std::pair<int, int>, std::vector<std::int64_t>> sent, received;
    for (const int r : meeting) {
      const auto& exchange = std::get<Exchange>(next(r, lane)->node->op);
      for (std::size_t i = 0; i < exchange.sends.size(); ++i)
        sent[{r, group.at(static_cast<std::size_t>(exchange.send_peers[i]))}].push_back(
            exchange.sends[i].bytes());
      for (std::size_t i = 0; i < exchange.recvs.size(); ++i)
        received[{group.at(static_cast<std::size_t>(exchange.recv_peers[i])), r}].push_back(
            exchange.recvs[i].bytes());
    }
    if (sent != received)
      throw InternalError(
          fmt::format("sends and receives do not match\n  {}", line(rank, *next(rank, lane))));
  }

  void report_stuck() const {
    std::string stuck;
    for (int r = 0; r < static_cast<int>(ranks_.size()); ++r)
      for (int lane = 0; lane < kLanes; ++lane)
        if (const Occurrence* o = next(r, lane)) stuck += fmt::format("\n  rank {}: {}", r, line(r, *o));
    if (!stuck.empty()) throw InternalError("the programs wait for each other for ever:" + stuck);
  }

  std::string line(int rank, const Occurrence& o) const {
    return dump_node(*ranks_[static_cast<std::size_t>(rank)].program, *o.node);
  }

  FunctionRef<std::vector<int>(int, Axis)> peers_;
  std::vector<Rank> ranks_;
};

}  // namespace

void verify_all(std::span<const Program* const> programs,
                FunctionRef<std::vector<int>(int, Axis)> axis_peers) {
  LockStep(programs, axis_peers).run();
}

}  // namespace titan
