// A product, its operands, and the same in double precision.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "kernels/base/bf16.h"
#include "kernels/cpu/base/run.h"
#include "kernels/cpu/base/team.h"
#include "kernels/cpu/gemm/gemm_engine.h"

namespace titan::cpu::gemm_test {

inline constexpr float kGap = 12345.0f;  ///< between the rows of a view: must stay as it is

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

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
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

inline void check(const Case& x, GemmChoice choice, std::span<const Isa> isas) {
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

inline constexpr std::int64_t kShapes[][3] = {{1, 1, 1},   {1, 37, 5},   {3, 50, 17},   {7, 9, 300},
                                              {8, 33, 64}, {13, 26, 31}, {97, 101, 70}, {65, 130, 261}};

}  // namespace titan::cpu::gemm_test
