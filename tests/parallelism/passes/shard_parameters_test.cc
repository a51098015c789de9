#include "parallelism/passes/shard_parameters.h"

#include <catch2/catch.hpp>
#include <set>

#include "engine/optim/optimizer.h"
#include "engine/program/verify.h"
#include "tests/support/model_runner.h"

using namespace titan;
using namespace titan::test;

namespace {

Program sharded(const ModelConfig& config, const ShardOptions& options, DType compute = DType::bf16) {
  Program p = build_train_program(config, {.sequences = 1, .seq_len = 8, .compute = compute}, Mesh());
  const auto plan = plan_buckets(p);
  return shard_parameters(std::move(p), plan, options);
}

int casts_in(const Program& p, std::string_view segment) {
  int count = 0;
  for (const Node& node : p.segment(segment).nodes) count += std::holds_alternative<Cast>(node.op) ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("buckets are TorchTitan's FSDP units") {
  const Program p = sharded(tiny_config(), {});
  std::vector<std::string> names;
  for (const Bucket& b : p.buckets) names.push_back(b.name);
  CHECK(names == std::vector<std::string>{"embedding", "layers.0", "layers.1", "layers.2", "head"});
}

TEST_CASE("a bucket has one layout for master, moments and gradients; every unit starts at 256 bytes") {
  const Program p = sharded(tiny_config(), {});
  for (const Parameter& parameter : p.parameters) {
    INFO(parameter.name);
    const Value &master = p.value(parameter.master), &gradient = p.value(parameter.gradient);
    CHECK(master.offset == gradient.offset);
    CHECK(master.offset == p.value(parameter.exp_avg).offset);
    CHECK(master.offset == p.value(parameter.exp_avg_sq).offset);
    CHECK(master.lifetime == Lifetime::persistent);
    CHECK(gradient.role == Role::gradient);
  }
  for (const Bucket& bucket : p.buckets) {
    std::int64_t covered = 0;
    std::set<std::int64_t> starts;
    for (const auto* list : {&bucket.runs, &bucket.padding})
      for (const Bucket::Run& run : *list) {
        covered += run.count;
        CHECK(starts.insert(run.begin).second);
      }
    CHECK(covered == bucket.elements);
    CHECK(bucket.elements % 64 == 0);
  }
}

TEST_CASE("weights are cast once a step, or in each segment that uses them, or not at all in float32") {
  const ModelConfig config = tiny_config();
  const Program held = sharded(config, {.residency = Residency::per_step});
  CHECK(casts_in(held, "gather") == 4);  // three blocks and the head; the embedding reads its master
  CHECK(held.timeline.front().segment == held.segment_index("gather"));
  const Program used = sharded(config, {.residency = Residency::per_use});
  CHECK(casts_in(used, "forward") == 3);
  CHECK(casts_in(used, "backward") == 4);
  const Program exact = sharded(config, {}, DType::f32);
  CHECK(exact.segments.size() == 2);
  for (const Program* p : {&held, &used, &exact}) CHECK_NOTHROW(verify(*p));
}

TEST_CASE("tied embeddings are stored once") {
  const Program p = sharded(tiny_config(true), {});
  CHECK(p.parameters.size() == 1 + 9 * 3 + 1);
  CHECK_NOTHROW(verify(p));
  CHECK(casts_in(p, "gather") == 5);  // the head needs the embedding in bf16
}

TEST_CASE("parameters that match a pattern get no weight decay") {
  Program p =
      sharded(tiny_config(), {.residency = Residency::per_step, .no_decay = {"norm", "embed_tokens"}});
  append_optimizer(p, {.weight_decay = 0.1f});
  REQUIRE_NOTHROW(verify(p));
  for (const Parameter& parameter : p.parameters) {
    INFO(parameter.name);
    const bool decays = parameter.name.find("norm") == std::string::npos &&
                        parameter.name.find("embed_tokens") == std::string::npos;
    int updates = 0;
    for (const Node& node : p.segment("optimizer").nodes) {
      const auto* adamw = std::get_if<AdamW>(&node.op);
      if (adamw == nullptr || p.base_of(adamw->param.value) != p.base_of(parameter.master)) continue;
      if (overlap_bytes(rect_of(p.value(adamw->param.value)), rect_of(p.value(parameter.master))) == 0)
        continue;
      ++updates;
      CHECK(adamw->weight_decay == (decays ? 0.1f : 0.0f));
    }
    CHECK(updates == 1);
  }
}
