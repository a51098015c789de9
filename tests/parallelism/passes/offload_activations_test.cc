// offload_activations moves saved activations to the host and back and changes no number.
#include "engine/passes/offload_activations.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "engine/optim/optimizer.h"
#include "engine/passes/offload_state.h"
#include "engine/program/dump.h"
#include "engine/program/order.h"
#include "engine/program/place.h"
#include "engine/program/verify.h"
#include "kernels/base/error.h"
#include "kernels/cost/machine.h"
#include "tests/support/model_runner.h"

using namespace titan;
using namespace titan::test;
using Mode = RecomputePolicy::Mode;

namespace {

constexpr int kLayers = 8;
const Machine kMachine = cpu_machine("avx2", 2, 1e11, 1e11, 2e10, std::int64_t{1} << 34);
const std::vector<RecomputePolicy> kPolicies{{.mode = Mode::none},
                                             {.mode = Mode::full},
                                             {.mode = Mode::every_layer, .every = 2},
                                             {.mode = Mode::selective},
                                             {.mode = Mode::memory_budget, .budget = 0.5}};

/// Many layers and many tokens: activations are what takes memory.
Program deep(const RecomputePolicy& policy, int micro_batches = 1) {
  ModelConfig config = tiny_config();
  config.n_layers = kLayers;
  return recompute(build_train_program(config,
                                       {.sequences = 4,
                                        .seq_len = 32,
                                        .micro_batches = micro_batches,
                                        .compute = DType::bf16,
                                        .loss_chunk = 32},
                                       Mesh()),
                   policy, kMachine);
}

Program finished(Program p, bool offload_the_state) {
  const auto plan = plan_buckets(p);
  p = shard_parameters(std::move(p), plan,
                       {.residency = Residency::per_use, .weights_apart = offload_the_state});
  append_optimizer(p, {});
  if (offload_the_state) p = offload_state(std::move(p));
  verify(p);
  return p;
}

Placement placed(const Program& p) {
  const std::vector<const Program*> one{&p};
  Placement placement = place(one);
  verify_placement(one, placement);
  return placement;
}

/// Bytes that a layer's forward leaves to the backward, as placement counts them.
std::int64_t saved_bytes(const Program& p, int layer) {
  std::set<ValueId> made, saved;
  for (const Node& node : p.segment("forward").nodes)
    for_each_operand(node.op, [&](const Operand& o, Access access, std::string_view) {
      if (writes(access) && node.tag.layer == layer) made.insert(p.base_of(o.value));
    });
  std::int64_t bytes = 0;
  for (const Node& node : p.segment("backward").nodes)
    for_each_operand(node.op, [&](const Operand& o, Access, std::string_view) {
      const ValueId base = p.base_of(o.value);
      if (made.contains(base) && saved.insert(base).second) bytes += aligned(p.value(base).bytes());
    });
  return bytes;
}

struct Run {
  std::vector<float> losses;
  std::vector<std::vector<std::byte>> state;
};

Run run(const RunnerOptions& options, const StepShape& shape) {
  ModelRunner runner(tiny_config(), shape, options);
  Run result;
  const std::int64_t count = shape.tokens() * shape.micro_batches;
  for (int s = 0; s < 5; ++s) {
    runner.set_batch(random_tokens(count, 101, static_cast<std::uint32_t>(s + 1)),
                     random_tokens(count, 101, static_cast<std::uint32_t>(s + 50)));
    result.losses.push_back(runner.step(1e-2f, static_cast<float>(1 - std::pow(0.9, s + 1)),
                                        static_cast<float>(1 - std::pow(0.95, s + 1))));
    result.losses.push_back(runner.grad_norm());
  }
  result.state = runner.state();
  return result;
}

}  // namespace

TEST_CASE("losses and state are the same bits in every recompute mode, with all layers, some and none") {
  const DType compute = GENERATE(DType::bf16, DType::f32);
  const int micro_batches = GENERATE(1, 2);
  const Residency residency = GENERATE(Residency::per_step, Residency::per_use);
  const StepShape shape{
      .sequences = 2, .seq_len = 19, .micro_batches = micro_batches, .compute = compute, .loss_chunk = 16};
  for (const RecomputePolicy& policy : kPolicies) {
    INFO(static_cast<int>(policy.mode));
    RunnerOptions options{.recompute = policy, .residency = residency, .threads = 1};
    const Run expected = run(options, shape);
    for (const std::int64_t layers : {-1, 3}) {
      options.offload_activations = ActivationOffload{.layers = layers};
      options.offload_state = layers == 3;
      const Run found = run(options, shape);
      CHECK(found.losses == expected.losses);
      CHECK(found.state == expected.state);
    }
  }
}

TEST_CASE("with two micro-batches in flight the losses are those of one after the other") {
  const Residency residency = GENERATE(Residency::per_step, Residency::per_use);
  const StepShape shape{
      .sequences = 2, .seq_len = 19, .micro_batches = 2, .compute = DType::bf16, .loss_chunk = 16};
  RunnerOptions options{.residency = residency, .threads = 1};
  const Run expected = run(options, shape);
  options.two_slots = true;
  CHECK(run(options, shape).losses == expected.losses);
  options.offload_activations = ActivationOffload{};
  for (const bool state : {false, true}) {
    options.offload_state = state;
    const Run found = run(options, shape);
    CHECK(found.losses == expected.losses);
    CHECK(found.state == expected.state);
  }
}

TEST_CASE("host memory grows by what is saved, to the byte; the device's falls by it, two layers apart") {
  const RecomputePolicy policy = GENERATE(from_range(kPolicies));
  const int micro_batches = GENERATE(1, 3);
  const Program plain = deep(policy, micro_batches);
  std::int64_t all = 0, largest = 0;
  for (int layer = 0; layer + 1 < kLayers; ++layer) {
    all += saved_bytes(plain, layer);
    largest = std::max(largest, saved_bytes(plain, layer));
  }
  INFO(static_cast<int>(policy.mode) << ": " << all << " bytes, " << largest << " in a layer");
  const Placement before = placed(finished(plain, false)),
                  after = placed(finished(offload_activations(plain, {}), false));
  const TransientReport &was = before.space(Space::device).programs[0],
                        &is = after.space(Space::device).programs[0];
  CHECK(before.space(Space::host).arena_bytes == 0);
  CHECK(after.space(Space::host).arena_bytes == all);
  CHECK(after.space(Space::device).persistent_bytes == before.space(Space::device).persistent_bytes);
  CHECK(is.bytes <= was.bytes);
  if (policy.mode != Mode::none) return;
  // One micro-batch: gradients of the first blocks come when the activations of the last are gone already,
  // and hide the difference, unless they leave as well.
  const bool leave = micro_batches == 1;
  const auto device_bytes = [&](const Program& p) {
    return placed(finished(p, leave)).space(Space::device).programs[0].bytes;
  };
  CHECK(device_bytes(offload_activations(plain, {})) <= device_bytes(plain) - (all - 2 * largest));
}

TEST_CASE("what is dropped is not copied, and neither is what is small or of other layers") {
  const Program plain = deep({.mode = Mode::full});
  std::set<std::string> copied;
  const Program offloaded = offload_activations(plain, {.layers = 3});
  for (const Node& node : offloaded.segment("forward").nodes)
    if (node.lane == Lane::spill) copied.insert(plain.value(std::get<Copy>(node.op).x.value).name);
  CHECK(copied.size() == 2);  // inputs of blocks 1 and 2; block 0's is the embedding's output
  const Program big = offload_activations(deep({.mode = Mode::none}), {.layers = 3, .min_bytes = 40'000});
  for (const Node& node : big.segment("forward").nodes) {
    if (node.lane != Lane::spill) continue;
    CHECK(std::get<Copy>(node.op).x.bytes() >= 40'000);
    CHECK(node.tag.layer < 3);
  }
  const Program none = offload_activations(plain, {.layers = 3, .min_bytes = std::int64_t{1} << 40});
  CHECK(dump(none) == dump(plain));
}

TEST_CASE("a block is on its way back while the backward works on the one after it") {
  const Program p = offload_activations(deep({.mode = Mode::none}), {});
  verify(p);
  std::vector<std::int32_t> began(kLayers + 1, 0);  // ticket of the first compute node of a layer's backward
  const std::vector<Occurrence> list = unroll(p);
  for (const Occurrence& o : list)
    if (p.timeline[static_cast<std::size_t>(o.step)].segment == p.segment_index("backward") &&
        o.node->lane == Lane::compute && o.node->tag.layer >= 0 &&
        began[static_cast<std::size_t>(o.node->tag.layer)] == 0)
      began[static_cast<std::size_t>(o.node->tag.layer)] = o.ticket;
  int copies = 0;
  for (const Occurrence& o : list) {
    if (o.node->lane != Lane::reload) continue;
    INFO(dump_node(p, *o.node));
    const std::int32_t known = o.before.finished[0];
    CHECK(known == began[static_cast<std::size_t>(o.node->tag.layer + 1)] - 1);
    ++copies;
  }
  CHECK(copies >= 5 * (kLayers - 1));
}

TEST_CASE("a missing edge between an activation's copy and the reuse of its memory is found") {
  const std::string segment = GENERATE("forward", "backward");
  Program p = finished(offload_activations(deep({.mode = Mode::none}), {}), false);
  const std::vector<const Program*> one{&p};
  const Placement placement = place(one);
  CHECK_NOTHROW(verify_placement(one, placement));
  // All edges of a block go: one copy's edge is implied by those of the copies before it on its lane.
  int planted = 0;
  for (int layer = 1; layer + 2 < kLayers; ++layer) {
    const Program good = p;
    bool any = false;
    for (Node& node : p.segment(segment).nodes)
      if (node.tag.layer == layer) any = !std::exchange(node.after, {}).empty() || any;
    if (any) {
      INFO(segment << " " << layer);
      CHECK_THROWS_WITH(verify_placement(one, placement), Catch::Contains("share memory but may be alive"));
      ++planted;
    }
    p = good;
  }
  CHECK(planted >= 3);
}
