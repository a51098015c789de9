// The GEMM on AMX, with emulated tiles.
#include "kernels/base/float8.h"
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

/// Bytes become bf16 as they are packed: the same product of the same values, scaled.
TEST_CASE("GEMM of 8-bit floats on tiles equals the loop, scaled by rows and columns or as a whole") {
  if (best_isa() < Isa::avx512_bf16) return;
  constexpr std::int64_t kM = 48, kN = 80, kK = 272;
  std::vector<std::uint8_t> a(kM * kK), b(kN * kK);
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<std::uint8_t>(i * 37 % 120 + (i % 3) * 128 % 256);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<std::uint8_t>(i * 53 % 120);
  std::vector<float> scale_a(kM), scale_b(kN), c(kM * kN);
  for (std::int64_t i = 0; i < kM; ++i) scale_a[static_cast<std::size_t>(i)] = 0.5f + static_cast<float>(i);
  for (std::int64_t i = 0; i < kN; ++i)
    scale_b[static_cast<std::size_t>(i)] = 2.0f - static_cast<float>(i) / 64;
  const auto operand = [](ValueId id, DType dtype, std::int64_t rows, std::int64_t cols) {
    return Operand{.value = id, .dtype = dtype, .rows = rows, .cols = cols, .pitch = cols};
  };
  for (const bool each : {false, true}) {
    Gemm op{.a = {operand(0, DType::f8e4m3, kM, kK)},
            .b = {operand(1, DType::f8e4m3, kN, kK)},
            .c = {operand(2, DType::f32, kM, kN)},
            .workspace = {},
            .transpose_b = true,
            .scale_a = {operand(3, DType::f32, each ? kM : 1, 1)},
            .scale_b = {operand(4, DType::f32, each ? kN : 1, 1)}};
    std::byte* addresses[] = {reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data()),
                              reinterpret_cast<std::byte*>(c.data()),
                              reinterpret_cast<std::byte*>(scale_a.data()),
                              reinterpret_cast<std::byte*>(scale_b.data())};
    const Binding binding{.addresses = addresses};
    const Team team(2);
    GemmEngine engine(Isa::amx, GemmChoice::own);
    run(op, Context{.binding = binding, .team = team, .isa = Isa::amx, .gemm = &engine});
    double worst = 0;
    for (std::int64_t i = 0; i < kM; ++i)
      for (std::int64_t j = 0; j < kN; ++j) {
        double sum = 0, magnitude = 0;
        for (std::int64_t k = 0; k < kK; ++k) {
          const double x = to_float(f8e4m3{a[static_cast<std::size_t>(i * kK + k)]}) *
                           double{to_float(f8e4m3{b[static_cast<std::size_t>(j * kK + k)]})};
          sum += x, magnitude += std::abs(x);
        }
        const double scale = double{scale_a[static_cast<std::size_t>(each ? i : 0)]} *
                             scale_b[static_cast<std::size_t>(each ? j : 0)];
        worst = std::max(worst, std::abs(c[static_cast<std::size_t>(i * kN + j)] - sum * scale) /
                                    (magnitude * std::abs(scale)));
      }
    CHECK(worst < 1e-6);
  }
}

}  // namespace
}  // namespace titan::cpu
