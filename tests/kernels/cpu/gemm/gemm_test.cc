// Every GEMM path against a loop in double precision.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "kernels/base/bf16.h"
#include "kernels/cpu/base/run.h"
#include "kernels/cpu/base/team.h"
#include "kernels/cpu/gemm/gemm_engine.h"
#include "kernels/cpu/gemm/gemm_kernels.h"

namespace titan::cpu {
namespace {

constexpr float kGap = 12345.0f;  ///< between the rows of a view: must stay as it is

/// A stored matrix with `padding` elements between rows.
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t cols, std::int64_t padding, DType dtype, unsigned seed)
      : rows_(rows),
        cols_(cols),
        pitch_(cols + padding),
        dtype_(dtype),
        bytes_(rows * (cols + padding) * size_of(dtype) + 1) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < pitch_; ++c) set(r, c, c < cols ? normal(random) : kGap);
  }

  double at(std::int64_t r, std::int64_t c) const {
    const std::int64_t i = r * pitch_ + c;
    if (dtype_ == DType::bf16) return to_float(reinterpret_cast<const bf16*>(bytes_.data())[i]);
    return reinterpret_cast<const float*>(bytes_.data())[i];
  }
  void set(std::int64_t r, std::int64_t c, float x) {
    const std::int64_t i = r * pitch_ + c;
    if (dtype_ == DType::bf16)
      reinterpret_cast<bf16*>(bytes_.data())[i] = to_bf16(x);
    else
      reinterpret_cast<float*>(bytes_.data())[i] = x;
  }
  bool gaps_intact() const {
    const float gap = dtype_ == DType::bf16 ? to_float(to_bf16(kGap)) : kGap;
    for (std::int64_t r = 0; r < rows_; ++r)
      for (std::int64_t c = cols_; c < pitch_; ++c)
        if (at(r, c) != gap) return false;
    return true;
  }
  template <class OperandType>
  OperandType operand(ValueId id) const {
    OperandType o;
    static_cast<Operand&>(o) = {.value = id, .dtype = dtype_, .rows = rows_, .cols = cols_, .pitch = pitch_};
    return o;
  }
  std::byte* data() { return bytes_.data(); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::int64_t rows_, cols_, pitch_;
  DType dtype_;
  std::vector<std::byte> bytes_;
};

struct Case {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = true;
  DType input = DType::f32, output = DType::f32;
  bool add = false;
  std::int64_t padding = 0;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.m << "x" << c.n << "x" << c.k << (c.transpose_a ? " T" : " N")
             << (c.transpose_b ? "T " : "N ") << to_string(c.input) << "->" << to_string(c.output)
             << (c.add ? " add" : "") << " padding " << c.padding;
}

struct Run {
  Matrix a, b, c;
  explicit Run(const Case& x)
      : a(x.transpose_a ? x.k : x.m, x.transpose_a ? x.m : x.k, x.padding, x.input, 1),
        b(x.transpose_b ? x.n : x.k, x.transpose_b ? x.k : x.n, x.padding, x.input, 2),
        c(x.m, x.n, x.padding, x.output, 3) {}

  void execute(const Case& x, Isa isa, GemmChoice choice, int threads) {
    Gemm op;
    op.a = a.operand<In>(0);
    op.b = b.operand<In>(1);
    op.c = c.operand<Result>(2);
    op.c.accumulates = x.add;
    op.transpose_a = x.transpose_a;
    op.transpose_b = x.transpose_b;
    std::byte* addresses[] = {a.data(), b.data(), c.data()};
    const Binding binding{.addresses = addresses};
    const Team team(threads);
    GemmEngine engine(isa, choice);
    run(op, Context{.binding = binding, .team = team, .isa = isa, .gemm = &engine});
  }
};

/// The product in double precision, and the error that the output dtype and an f32 sum of k products allow.
class Reference {
 public:
  Reference(const Case& x, const Run& inputs) : columns_(x.n) {
    const double half_ulp = std::ldexp(1.0, x.output == DType::bf16 ? -8 : -24);
    for (std::int64_t i = 0; i < x.m; ++i)
      for (std::int64_t j = 0; j < x.n; ++j) {
        double sum = x.add ? inputs.c.at(i, j) : 0, magnitude = std::abs(sum);
        for (std::int64_t d = 0; d < x.k; ++d) {
          const double product = (x.transpose_a ? inputs.a.at(d, i) : inputs.a.at(i, d)) *
                                 (x.transpose_b ? inputs.b.at(j, d) : inputs.b.at(d, j));
          sum += product;
          magnitude += std::abs(product);
        }
        sums_.push_back(sum);
        allowed_.push_back(half_ulp * std::abs(sum) + (1 + std::sqrt(x.k)) * 6e-8 * magnitude + 1e-30);
      }
  }
  /// The largest error of c in units of the allowed one.
  double worst_error(const Matrix& c) const {
    double worst = 0;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      const double error = std::abs(c.at(index / columns_, index % columns_) - sums_[i]) / allowed_[i];
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
    return worst;
  }

 private:
  std::int64_t columns_;
  std::vector<double> sums_, allowed_;
};

const Isa kBest[] = {best_isa()};

void check(const Case& x, GemmChoice choice, std::span<const Isa> isas) {
  const Run before(x);
  const Reference reference(x, before);
  for (const Isa isa : isas) {
    if (isa > best_isa()) continue;
    Run after = before;
    after.execute(x, isa, choice, 2);
    INFO(x << ", " << to_string(isa) << ", engine " << static_cast<int>(choice));
    CHECK(reference.worst_error(after.c) <= 1);
    CHECK(after.c.gaps_intact());
  }
}

template <class F>
void for_each_kind(F f) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const auto& [input, output] :
           {std::pair{DType::f32, DType::f32}, std::pair{DType::bf16, DType::f32},
            std::pair{DType::bf16, DType::bf16}})
        for (const bool add : {false, true})
          f(Case{.transpose_a = transpose_a,
                 .transpose_b = transpose_b,
                 .input = input,
                 .output = output,
                 .add = add});
}

constexpr std::int64_t kShapes[][3] = {{1, 1, 1},   {1, 37, 5},   {3, 50, 17},   {7, 9, 300},
                                       {8, 33, 64}, {13, 26, 31}, {97, 101, 70}, {65, 130, 261}};

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
