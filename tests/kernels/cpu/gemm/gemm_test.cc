// Every GEMM path against a loop in double precision.
#include <catch2/catch.hpp>

#include "kernels/cpu/gemm/gemm_kernels.h"
#include "tests/kernels/cpu/gemm/gemm_case.h"

namespace titan::cpu {
namespace {

using namespace gemm_test;

const Isa kBest[] = {best_isa()};

TEST_CASE("GEMM equals the double-precision loop on every instruction set") {
  for (const auto& [m, n, k] : kShapes)
    for_each_kind([&, m = m, n = n, k = k](Case x) {
      x.m = m, x.n = n, x.k = k;
      for (const std::int64_t padding : {0, 5}) {
        x.padding = padding;
        check(x, GemmChoice::own, kAllIsas);
      }
    });
}

TEST_CASE("GEMM by oneDNN equals the double-precision loop") {
  for (const auto& [m, n, k] : kShapes)
    for_each_kind([&, m = m, n = n, k = k](Case x) {
      if (x.input == DType::bf16 && best_isa() < Isa::avx512_bf16) return;
      x.m = m, x.n = n, x.k = k, x.padding = n % 2 == 0 ? 0 : 3;
      check(x, GemmChoice::onednn, kBest);
    });
}

TEST_CASE("GEMM tiles larger than one block of every dimension") {
  check({.m = 401, .n = 801, .k = 270, .input = DType::bf16, .output = DType::bf16, .add = true},
        GemmChoice::own, kBest);
  check({.m = 401, .n = 801, .k = 270, .transpose_a = true, .transpose_b = false, .padding = 1},
        GemmChoice::own, kBest);
}

TEST_CASE("GEMM gives the same bits on any number of threads") {
  for (const Case& x :
       {Case{.m = 200, .n = 300, .k = 520},
        Case{.m = 200, .n = 300, .k = 520, .transpose_a = true, .transpose_b = false},
        Case{.m = 130, .n = 1000, .k = 300, .input = DType::bf16, .output = DType::bf16, .add = true},
        Case{.m = 4, .n = 1000, .k = 300, .input = DType::bf16, .output = DType::bf16}})
    for (const Isa isa : kAllIsas) {
      if (isa > best_isa()) continue;
      Run one(x);
      one.execute(x, isa, GemmChoice::own, 1);
      for (const int threads : {2, 3, 7}) {
        Run many(x);
        many.execute(x, isa, GemmChoice::own, threads);
        INFO(x << ", " << to_string(isa) << ", threads " << threads);
        CHECK(many.c.bytes() == one.c.bytes());
      }
    }
}

TEST_CASE("GEMM over nothing") {
  for (const GemmChoice choice : {GemmChoice::own, GemmChoice::onednn}) {
    check({.m = 0, .n = 5, .k = 3}, choice, kBest);
    check({.m = 5, .n = 0, .k = 3}, choice, kBest);
    check({.m = 5, .n = 4, .k = 0, .padding = 2}, choice, kBest);
    check({.m = 5, .n = 4, .k = 0, .add = true}, choice, kBest);
  }
}

TEST_CASE("A binding decides whether an accumulating GEMM adds") {
  Matrix a(2, 3, 0, DType::f32, 1), b(2, 3, 0, DType::f32, 2), c(2, 2, 0, DType::f32, 3);
  Gemm op;
  op.a = a.operand<In>(0), op.b = b.operand<In>(1), op.c = c.operand<Result>(2);
  op.c.accumulates = true, op.transpose_b = true;
  std::byte* addresses[] = {a.data(), b.data(), c.data()};
  const Team team(1);
  GemmEngine engine(best_isa());
  const Binding overwrite{.addresses = addresses, .overwrite = 0b100}, add{.addresses = addresses};
  run(op, Context{.binding = overwrite, .team = team, .isa = best_isa(), .gemm = &engine});
  const double once = c.at(1, 0);
  run(op, Context{.binding = add, .team = team, .isa = best_isa(), .gemm = &engine});
  CHECK(c.at(1, 0) == Approx(2 * once));
}

TEST_CASE("The path of a GEMM depends on shape and machine only") {
  const GemmProblem decode{.m = 4, .n = 100, .k = 100, .b = {.transposed = true}, .input = DType::bf16};
  GemmProblem train = decode;
  train.m = 512;
  CHECK(choose_path(decode, GemmChoice::automatic, Isa::amx) == GemmPath::dots);
  CHECK(choose_path(train, GemmChoice::automatic, Isa::amx) == GemmPath::onednn);
  CHECK(choose_path(train, GemmChoice::automatic, Isa::avx512_bf16) == GemmPath::packed);
  CHECK(choose_path(train, GemmChoice::automatic, Isa::avx512) == GemmPath::packed);
  CHECK(choose_path(train, GemmChoice::own, Isa::amx) == GemmPath::packed);
  CHECK(choose_path(decode, GemmChoice::onednn, Isa::avx2) == GemmPath::onednn);
  train.input = DType::f32;
  CHECK(choose_path(train, GemmChoice::automatic, Isa::amx) == GemmPath::packed);
}

TEST_CASE("GEMM blocks keep threads busy, and their buffers are small") {
  for (const Isa isa : kAllIsas)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const PackedKernels& kernels = packed_kernels(isa, dtype);
      for (const std::int64_t m : {1, 100, 1024, 8192})
        for (const std::int64_t n : {1, 256, 1536, 32000})
          for (const std::int64_t k : {1, 768, 8192, 128256})
            for (const int threads : {1, 2, 16, 64}) {
              const Blocking x = choose_blocking({.m = m, .n = n, .k = k, .input = dtype}, threads, kernels);
              INFO(m << " x " << n << " x " << k << " on " << threads << ": " << x.rows << " x "
                     << x.group_columns << " of " << x.packed_columns);
              CHECK(x.rows % kernels.tile_rows == 0);
              CHECK(x.packed_columns % kernels.tile_columns == 0);
              CHECK(x.group_columns % kernels.tile_columns == 0);
              CHECK(x.tile_columns % kernels.tile_columns == 0);
              CHECK(x.tile_columns <= x.group_columns);
              CHECK(x.rows <= 384 + kernels.tile_rows);
              CHECK(kernels.panel_bytes(x.packed_columns, k) <=
                    std::max<std::int64_t>(33 << 20, kernels.panel_bytes(288, k)));
              if (x.keeps_a) CHECK(kernels.panel_bytes(x.rows, k) <= 2 << 20);
              const std::int64_t items =
                  ((m + x.rows - 1) / x.rows) * ((x.packed_columns + x.group_columns - 1) / x.group_columns);
              const std::int64_t rounds = (items + threads - 1) / threads;
              if (m >= 1024 && n >= 1536 && k < 10000) CHECK(items * 8 >= rounds * threads * 7);
            }
    }
}

}  // namespace
}  // namespace titan::cpu
