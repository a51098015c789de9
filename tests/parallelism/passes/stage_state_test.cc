#include "engine/passes/stage_state.h"

#include <catch2/catch.hpp>
#include <map>

#include "engine/optim/optimizer.h"
#include "engine/program/dump.h"
#include "engine/program/order.h"
#include "engine/program/place.h"
#include "engine/program/verify.h"
#include "tests/support/model_runner.h"

using namespace titan;
using namespace titan::test;

namespace {

constexpr int kOffload = static_cast<int>(Lane::offload);

Program training(Residency residency, int micro_batches) {
  Program p = build_train_program(
      tiny_config(), {.sequences = 1, .seq_len = 8, .micro_batches = micro_batches, .compute = DType::bf16},
      Mesh());
  const auto plan = plan_buckets(p);
  // Without decay of norms a bucket has several runs, and an update each.
  p = shard_parameters(std::move(p), plan, {.residency = residency, .no_decay = {"norm"}});
  append_optimizer(p, {});
  return p;
}

}  // namespace

TEST_CASE("each bucket's updates wait for its own copies, and nothing else waits for any") {
  const Residency residency = GENERATE(Residency::per_step, Residency::per_use);
  const int micro_batches = GENERATE(1, 3);
  const Program p = stage_state(training(residency, micro_batches));
  verify(p);
  std::map<ValueId, std::int32_t> copied;  // state → ticket of its copy
  int updates = 0;
  for (const Occurrence& o : unroll(p)) {
    INFO(dump_node(p, *o.node));
    if (const auto* copy = std::get_if<Copy>(&o.node->op); copy != nullptr && o.node->lane == Lane::offload) {
      copied[copy->x.value] = o.ticket;
      CHECK(o.waits.empty());  // starts with the step
    } else if (const auto* update = std::get_if<AdamW>(&o.node->op)) {
      ++updates;
      std::int32_t last = 0;
      for (const State& state : {update->param, update->exp_avg, update->exp_avg_sq})
        last = std::max(last, copied.at(p.base_of(state.value)));
      CHECK(o.before.finished[kOffload] == last);
    } else {
      REQUIRE(o.node->lane == Lane::compute);
      CHECK(o.before.finished[kOffload] == 0);
    }
  }
  CHECK(copied.size() == 3 * p.buckets.size());
  CHECK(updates > static_cast<int>(p.buckets.size()));
}

TEST_CASE("staging adds its values in host memory, to the byte, and nothing on the device") {
  const Program plain = training(Residency::per_use, 2), staging = stage_state(plain);
  CHECK(staging.name == "train_staging");
  const std::vector<const Program*> one{&plain}, both{&plain, &staging};
  const Placement before = place(one), after = place(both);
  verify_placement(both, after);
  std::int64_t state = 0;
  for (const Bucket& bucket : plain.buckets) state += 3 * aligned(bucket.elements * 4);
  const SpaceReport& host = after.space(Space::host);
  CHECK(host.arena_bytes == state);
  CHECK(host.persistent_by_role[static_cast<std::size_t>(Role::staging)] == state);
  CHECK(after.space(Space::device).arena_bytes == before.space(Space::device).arena_bytes);
  CHECK(after.space(Space::device).programs[1].bytes == before.space(Space::device).programs[0].bytes);
}

TEST_CASE("a copy in a dump") {
  const Program p = stage_state(training(Residency::per_step, 1));
  CHECK_THAT(dump(p), Catch::Contains("timeline stage gather forward backward optimizer\n"));
  CHECK_THAT(dump_node(p, p.segment("stage").nodes.at(1)),
             Catch::StartsWith("offload         stage       copy               "
                               "y=bucket.embedding.exp_avg.staged[1,"));
}
