#include "engine/bench/sweep.h"

#include <catch2/catch.hpp>

#include "kernels/base/error.h"

using namespace titan;
using Strings = std::vector<std::string>;

TEST_CASE("a sweep is a key and its values, lists kept whole") {
  const Sweep batches = parse_sweep("training.local_batch_size=1,2,4");
  CHECK(batches.key == "training.local_batch_size");
  CHECK(batches.values == Strings{"1", "2", "4"});
  CHECK(parse_sweep(R"(optimizer.no_decay=["a","b"],["c"])").values == Strings{R"(["a","b"])", R"(["c"])"});
  CHECK(parse_sweep("job.description='a,b',c").values == Strings{"'a,b'", "c"});
  CHECK(parse_sweep("model.tokenizer=a=b").values == Strings{"a=b"});
}

TEST_CASE("a sweep that says nothing is wrong usage") {
  for (const char* text : {"training.steps", "training.steps=", "training.steps=1,,2", "training.steps=1,",
                           "=1,2", "steps=1", "training.steps=1,2,1"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_sweep(text), UsageError);
  }
}

TEST_CASE("combinations are the product, the last sweep changing fastest") {
  CHECK(combinations({}) == std::vector<Strings>{{}});
  const std::vector<Sweep> sweeps{{"a.x", {"1", "2"}}, {"a.y", {"p"}}, {"a.z", {"u", "v"}}};
  CHECK(combinations(sweeps) ==
        std::vector<Strings>{{"1", "p", "u"}, {"1", "p", "v"}, {"2", "p", "u"}, {"2", "p", "v"}});
  const std::vector<Sweep> twice{{"a.x", {"1"}}, {"a.x", {"2"}}};
  CHECK_THROWS_AS(combinations(twice), UsageError);
  std::vector<Sweep> huge;
  for (int i = 0; i < 60; ++i) huge.push_back({fmt::format("a.k{}", i), {"1", "2"}});
  CHECK_THROWS_AS(combinations(huge), UsageError);
}
