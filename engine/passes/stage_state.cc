#include "engine/passes/stage_state.h"

#include "engine/program/edit.h"

namespace titan {
namespace {

Node stage(Program& program, ValueId state) {
  const Value of = program.value(state);
  const ValueId staged = add_value(program, of.name + ".staged", of.dtype, of.rows, of.cols, Role::staging,
                                   Lifetime::persistent);
  program.value(staged).space = Space::host;
  Node node;
  node.op = Copy{.x = operand<In>(program, state), .y = operand<Out>(program, staged)};
  node.lane = of.space == Space::host ? Lane::host : Lane::offload;
  node.tag = {.layer = -1, .phase = Phase::stage};
  node.id = program.next_node++;
  return node;
}

}  // namespace

Program stage_state(Program train) {
  train.name += "_staging";
  Segment segment{.name = "stage", .nodes = {}};
  for (const Bucket& bucket : train.buckets)
    for (const ValueId state : {bucket.master, bucket.exp_avg, bucket.exp_avg_sq})
      segment.nodes.push_back(stage(train, state));
  // The host lane has the weights to cast first: forward waits for those.
  const bool behind_gather =
      segment.nodes.front().lane == Lane::host &&
      train.segments[static_cast<std::size_t>(train.timeline.front().segment)].name == "gather";
  train.timeline.insert(train.timeline.begin() + (behind_gather ? 1 : 0),
                        TimelineStep{.segment = static_cast<int>(train.segments.size()), .variant = {}});
  train.segments.push_back(std::move(segment));
  return train;
}

}  // namespace titan
