// The GEMM on AMX, with emulated tiles.
#include "tests/kernels/cpu/gemm/gemm_case.h"

namespace titan::cpu {
namespace {

using namespace gemm_test;

TEST_CASE("GEMM on tiles equals the double-precision loop") {
  if (best_isa() < Isa::avx512_bf16) return;  // the packing's own instructions
  for (const auto& [m, n, k] : kShapes)
    for_each_kind([&, m = m, n = n, k = k](Case x) {
      if (x.input != DType::bf16) return;
      x.m = m, x.n = n, x.k = k;
      for (const std::int64_t padding : {0, 5}) {
        x.padding = padding;
        Run run(x);
        const Reference reference(x, run);
        run.execute(x, Isa::amx, GemmChoice::own, 2);
        INFO(x);
        CHECK(reference.worst_error(run.c) <= 1);
        CHECK(run.c.gaps_intact());
      }
    });
}

TEST_CASE("GEMM on tiles gives the same bits on any number of threads") {
  if (best_isa() < Isa::avx512_bf16) return;
  const Case x{.m = 130, .n = 500, .k = 300, .input = DType::bf16, .output = DType::bf16, .add = true};
  Run one(x);
  one.execute(x, Isa::amx, GemmChoice::own, 1);
  for (const int threads : {2, 3, 7}) {
    Run many(x);
    many.execute(x, Isa::amx, GemmChoice::own, threads);
    CHECK(many.c.bytes() == one.c.bytes());
  }
}

}  // namespace
}  // namespace titan::cpu
