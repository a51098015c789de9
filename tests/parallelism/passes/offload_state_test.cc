// offload_state moves the state to the host and changes no number.
#include "engine/passes/offload_state.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>

#include "engine/optim/optimizer.h"
#include "engine/passes/stage_state.h"
#include "engine/program/dump.h"
#include "engine/program/order.h"
#include "engine/program/place.h"
#include "engine/program/verify.h"
#include "kernels/base/error.h"
#include "tests/support/model_runner.h"

using namespace titan;
using namespace titan::test;

namespace {

constexpr int kOffload = static_cast<int>(Lane::offload);

/// Sizes that leave padding in the buckets: 48 · 3 is no multiple of 128.
StepShape shape_of(DType compute, int micro_batches) {
  return {
      .sequences = 2, .seq_len = 19, .micro_batches = micro_batches, .compute = compute, .loss_chunk = 16};
}

struct Run {
  std::vector<float> losses, norms;
  std::vector<std::vector<std::byte>> state;
};

Run run(ModelRunner& runner, const StepShape& shape, int steps) {
  Run result;
  const std::int64_t count = shape.tokens() * shape.micro_batches;
  for (int s = 0; s < steps; ++s) {
    runner.set_batch(random_tokens(count, 101, static_cast<std::uint32_t>(s + 1)),
                     random_tokens(count, 101, static_cast<std::uint32_t>(s + 50)));
    result.losses.push_back(runner.step(1e-2f, static_cast<float>(1 - std::pow(0.9, s + 1)),
                                        static_cast<float>(1 - std::pow(0.95, s + 1))));
    result.norms.push_back(runner.grad_norm());
  }
  result.state = runner.state();
  return result;
}

Program training(Residency residency, int micro_batches, DType compute = DType::bf16) {
  Program p = build_train_program(tiny_config(), shape_of(compute, micro_batches), Mesh());
  const auto plan = plan_buckets(p);
  p = shard_parameters(std::move(p), plan,
                       {.residency = residency, .no_decay = {"norm"}, .weights_apart = true});
  append_optimizer(p, {});
  return p;
}

constexpr int kLayers = 8;

/// A program of many layers and few tokens, and the bytes of a layer's gradients.
std::pair<Program, std::int64_t> deep(int micro_batches, Residency residency, bool offload) {
  ModelConfig config = tiny_config();
  config.n_layers = kLayers;
  Program p = build_train_program(
      config, {.sequences = 1, .seq_len = 8, .micro_batches = micro_batches, .compute = DType::bf16}, Mesh());
  const auto plan = plan_buckets(p);
  p = shard_parameters(std::move(p), plan, {.residency = residency, .weights_apart = offload});
  append_optimizer(p, {});
  if (offload) p = offload_state(std::move(p));
  const std::int64_t layer = aligned(p.buckets[1].elements * 4);
  return {std::move(p), layer};
}

std::int64_t by_role(const TransientReport& report, Role role) {
  return report.by_role[static_cast<std::size_t>(role)];
}

Placement placed(const Program& p) {
  const std::vector<const Program*> one{&p};
  Placement placement = place(one);
  verify_placement(one, placement);
  return placement;
}

std::int64_t total(const Program& p, std::int64_t bytes_of_element) {
  std::int64_t bytes = 0;
  for (const Bucket& bucket : p.buckets) bytes += aligned(bucket.elements * bytes_of_element);
  return bytes;
}

}  // namespace

TEST_CASE("losses, norms and the whole state are the same bits with and without offload") {
  const DType compute = GENERATE(DType::bf16, DType::f32);
  const Residency residency = GENERATE(Residency::per_step, Residency::per_use);
  const int micro_batches = GENERATE(1, 2);
  using Mode = RecomputePolicy::Mode;
  for (const RecomputePolicy& policy : {RecomputePolicy{.mode = Mode::none},
                                        {.mode = Mode::full},
                                        {.mode = Mode::every_layer, .every = 2},
                                        {.mode = Mode::selective},
                                        {.mode = Mode::memory_budget, .budget = 0.5}}) {
    INFO(static_cast<int>(policy.mode) << " " << micro_batches << " " << static_cast<int>(residency));
    RunnerOptions options{.recompute = policy, .residency = residency, .no_decay = {"norm"}, .threads = 1};
    const StepShape shape = shape_of(compute, micro_batches);
    ModelRunner plain(tiny_config(), shape, options);
    const Run expected = run(plain, shape, 5);
    options.offload_state = true;
    for (const bool host_thread : {true, false}) {
      options.host_thread = host_thread;
      ModelRunner offloaded(tiny_config(), shape, options);
      const Run found = run(offloaded, shape, 5);
      CHECK(found.losses == expected.losses);
      CHECK(found.norms == expected.norms);
      CHECK(found.state == expected.state);
    }
  }
}

TEST_CASE("tied embeddings and norms of parameters are the same bits with and without offload") {
  const bool tied = GENERATE(false, true);
  const Residency residency = GENERATE(Residency::per_step, Residency::per_use);
  const int micro_batches = GENERATE(1, 2);
  RunnerOptions options{.residency = residency, .parameter_norms = true, .threads = 1};
  const StepShape shape = shape_of(DType::bf16, micro_batches);
  ModelRunner plain(tiny_config(tied), shape, options);
  options.offload_state = true;
  ModelRunner offloaded(tiny_config(tied), shape, options);
  const Run expected = run(plain, shape, 3), found = run(offloaded, shape, 3);
  CHECK(found.losses == expected.losses);
  CHECK(found.state == expected.state);
  for (const char* name : {"gradient_square_sums", "weight_square_sums"}) {
    std::vector<std::vector<float>> sums;
    for (ModelRunner* runner : {&plain, &offloaded}) {
      const Program& p = runner->job().program("train");
      sums.emplace_back(p.parameters.size());
      runner->executor().read(runner->job().index("train"), p.at(name), sums.back().data());
    }
    CHECK(sums[0] == sums[1]);
    CHECK(sums[0].front() > 0);
  }
}

TEST_CASE("a step whose loss is not finite changes nothing on the host, and neither does any after it") {
  const StepShape shape = shape_of(DType::f32, 1);
  ModelRunner runner(tiny_config(), shape, {.offload_state = true, .threads = 1});
  run(runner, shape, 1);
  std::vector<float> norm(48, 1.0f), broken(48, std::numeric_limits<float>::quiet_NaN());
  runner.set_weight("model.norm.weight", broken);
  const auto before = runner.state();
  CHECK(std::isnan(run(runner, shape, 1).losses.front()));
  CHECK(runner.stopped());
  runner.set_weight("model.norm.weight", norm);
  const Run after = run(runner, shape, 1);
  CHECK(std::isfinite(after.losses.front()));
  CHECK(runner.stopped());
  int different = 0;
  for (std::size_t i = 0; i < before.size(); ++i) different += before[i] != after.state[i];
  CHECK(different == 2);  // the bucket of the norm that was set, and the stop flag
}

TEST_CASE("each update waits for its own gradient's copy, not for the next one's") {
  const Residency residency = GENERATE(Residency::per_step, Residency::per_use);
  const int micro_batches = GENERATE(1, 3);
  const Program p = offload_state(training(residency, micro_batches));
  verify(p);
  std::map<ValueId, std::int32_t> copied;  // host gradient → ticket of its last copy
  std::vector<ValueId> updated;
  std::int32_t backward_end = 0;
  for (const Occurrence& o : unroll(p))
    if (std::holds_alternative<EmbeddingGrad>(o.node->op)) backward_end = o.ticket;
  ValueId last_but_one = kNoValue;
  for (const Occurrence& o : unroll(p)) {
    INFO(dump_node(p, *o.node));
    if (const auto* copy = std::get_if<Copy>(&o.node->op); copy != nullptr && o.node->lane == Lane::offload) {
      CHECK(p.value(copy->y.value).space == Space::host);
      const ValueId gradient = p.base_of(copy->y.value);
      copied[gradient] = o.ticket;
      if (copied.size() + 1 == p.buckets.size()) last_but_one = gradient;
      if (copied.size() < p.buckets.size())  // starts before the backward has ended
        CHECK(o.before.finished[0] < backward_end);
    } else if (const auto* update = std::get_if<AdamW>(&o.node->op)) {
      CHECK(o.node->lane == Lane::host);
      const ValueId gradient = p.base_of(update->grad.value);
      // A bucket with padding comes in parts, and a part does not wait for the others.
      for (const Wait& wait : o.waits)
        if (wait.lane == kOffload) CHECK(wait.ticket <= copied.at(gradient));
      // The backward itself has waited for all copies but those of the last two buckets.
      if (updated.empty()) CHECK(o.before.finished[kOffload] < copied.at(last_but_one));
      if (updated.empty() || updated.back() != gradient) updated.push_back(gradient);
    }
  }
  CHECK(updated.size() == p.buckets.size());
}

TEST_CASE("copies follow the backward: the head first, the embedding last") {
  const Program p = offload_state(training(Residency::per_step, 2));
  std::vector<std::string> names;
  for (const Node& node : p.segment("offload").nodes) {
    const std::string& name = p.value(p.base_of(std::get<Copy>(node.op).x.value)).name;
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  CHECK(names == std::vector<std::string>{"bucket.head.gradient", "bucket.layers.2.gradient",
                                          "bucket.layers.1.gradient", "bucket.layers.0.gradient",
                                          "bucket.embedding.gradient"});
}

TEST_CASE("state is in host memory, to the byte, and weights cross in the compute dtype") {
  const Residency residency = GENERATE(Residency::per_step, Residency::per_use);
  const DType compute = GENERATE(DType::bf16, DType::f32);
  const Program p = offload_state(training(residency, 1, compute));
  const Placement placement = placed(p);
  const SpaceReport &host = placement.space(Space::host), &device = placement.space(Space::device);
  CHECK(host.persistent_bytes == 3 * total(p, 4));
  CHECK(device.persistent_by_role[static_cast<std::size_t>(Role::parameter)] == 0);
  CHECK(device.persistent_by_role[static_cast<std::size_t>(Role::optimizer_state)] == 0);
  CHECK(by_role(host.programs[0], Role::gradient) == total(p, 4));
  for (const Segment& segment : p.segments)
    for (const Node& node : segment.nodes) {
      if (node.lane != Lane::fetch) continue;
      const auto& copy = std::get<Copy>(node.op);
      CHECK(copy.y.dtype == compute);
      CHECK((p.value(copy.x.value).space == Space::host && p.value(copy.y.value).space == Space::device));
    }
}

TEST_CASE("with one micro-batch the device holds the gradients of few buckets, with more those of all") {
  const auto [plain, layer] = deep(1, Residency::per_use, false);
  const TransientReport plain_report = placed(plain).space(Space::device).programs[0],
                        offloaded =
                            placed(deep(1, Residency::per_use, true).first).space(Space::device).programs[0],
                        accumulated =
                            placed(deep(2, Residency::per_use, true).first).space(Space::device).programs[0];
  CHECK(by_role(plain_report, Role::gradient) >= kLayers * layer);
  CHECK(by_role(offloaded, Role::gradient) <= 3 * layer);
  CHECK(offloaded.bytes <= plain_report.bytes - (kLayers - 4) * layer);
  CHECK(by_role(accumulated, Role::gradient) >= kLayers * layer);
}

TEST_CASE("weights of one use: two buckets on the device, the next copied while one is used") {
  const auto bytes = [](Residency residency) {
    return placed(deep(1, residency, true).first).space(Space::device).programs[0].bytes;
  };
  const std::int64_t layer = deep(1, Residency::per_use, true).second / 2;  // bf16
  CHECK(bytes(Residency::per_use) <= bytes(Residency::per_step) - (kLayers - 4) * layer);
}

TEST_CASE("a missing edge between a copy and the reuse of its memory is found") {
  const std::string segment = GENERATE("backward", "forward", "gather");
  Program p = deep(1, segment == "gather" ? Residency::per_step : Residency::per_use, true).first;
  const std::vector<const Program*> one{&p};
  const Placement placement = place(one);
  CHECK_NOTHROW(verify_placement(one, placement));
  int planted = 0;
  for (Node& node : p.segment(segment).nodes) {
    if (node.after.empty()) continue;
    const std::vector<NodeId> edges = std::exchange(node.after, {});
    INFO(dump_node(p, node));
    CHECK_THROWS_WITH(verify_placement(one, placement), Catch::Contains("share memory but may be alive"));
    node.after = edges;
    ++planted;
  }
  CHECK(planted >= 3);
}

TEST_CASE("computing across the memory spaces is refused") {
  const Program good = offload_state(training(Residency::per_step, 1));
  Program p = good;
  for (Node& node : p.segment("optimizer").nodes)
    if (std::holds_alternative<AdamW>(node.op)) node.lane = Lane::compute;
  CHECK_THROWS_WITH(verify(p), Catch::Contains("lane compute uses host memory"));
  p = good;
  for (Node& node : p.segment("optimizer").nodes)
    if (std::holds_alternative<ClipScale>(node.op)) node.lane = Lane::host;
  CHECK_THROWS_WITH(verify(p), Catch::Contains("the host lane uses device memory"));
}

TEST_CASE("state that is in host memory is staged by the host lane, behind the casts of the step") {
  const Residency residency = GENERATE(Residency::per_step, Residency::per_use);
  const Program p = stage_state(offload_state(training(residency, 2)));
  verify(p);
  placed(p);
  CHECK_THAT(dump(p), Catch::Contains("timeline gather(0) stage(0) forward(0)"));
  for (const Node& node : p.segment("stage").nodes) CHECK(node.lane == Lane::host);
}
