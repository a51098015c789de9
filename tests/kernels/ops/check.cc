// The checks that one case must pass.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>

#include "kernels/base/error.h"
#include "tests/kernels/ops/float8.h"
#include "tests/kernels/ops/op_table.h"

namespace titan::op_test {
namespace {

bool is_result(Access access) { return writes(access) && access != Access::scratch; }

std::string snapshot(const Memory& memory, const Op& op) {
  std::string bits;
  for_each_operand(op, [&](const Operand& o, Access access, std::string_view) {
    if (!is_result(access)) return;
    for (const std::byte b : memory.bytes(o)) bits += static_cast<char>(b);
  });
  return bits;
}

double largest(const Matrix& m) {
  double largest = 0;
  for (const double x : m.values)
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  return largest;
}

/// Half a unit in the last place, relative.
double rounding(DType dtype) {
  return dtype == DType::bf16 ? std::ldexp(1.0, -8) : dtype == DType::f32 ? std::ldexp(1.0, -24) : 0;
}

std::string first_inexact(const Memory& memory, const Operand& o, const Matrix& want) {
  for (std::int64_t r = 0; r < o.rows; ++r)
    for (std::int64_t c = 0; c < o.cols; ++c)
      if (const double w = rounded(o.dtype, want(r, c)), got = memory.element(o, r, c);
          got != w && !(std::isnan(got) && std::isnan(w)))
        return fmt::format("[{},{}] is {:.9g}, not {:.9g}", r, c, got, w);
  return {};
}

/// The first element that is too far from `want`, as text; empty when there is none.
std::string first_difference(const Memory& memory, const Operand& o, const Matrix& want, double error) {
  const double scale = rounding(o.dtype) == 0 ? 0 : error * largest(want);
  for (std::int64_t r = 0; r < o.rows; ++r)
    for (std::int64_t c = 0; c < o.cols; ++c) {
      const double w = want(r, c), got = memory.element(o, r, c);
      const double allowed = rounding(o.dtype) * std::abs(w) + scale;
      const bool good =
          std::isfinite(w) ? std::abs(got - w) <= allowed : (std::isnan(w) ? std::isnan(got) : got == w);
      if (!good) return fmt::format("[{},{}] is {:.9g}, not {:.9g} (allowed {:.3g})", r, c, got, w, allowed);
    }
  return {};
}

/// The largest magnitude as bits of f32, which order NaN above all.
std::uint32_t largest_bits(const Memory& memory, const Operand& o) {
  std::uint32_t largest = 0;
  for (std::int64_t r = 0; r < o.rows; ++r)
    for (std::int64_t c = 0; c < o.cols; ++c) {
      const auto x = static_cast<float>(memory.element(o, r, c));
      largest = std::max(largest, std::bit_cast<std::uint32_t>(x) & 0x7fffffffu);
    }
  return largest;
}

/// What Quantize makes of the rows of `o`: its scales, or the values of its codes.
Matrix quantized_rows(const Memory& memory, const Operand& o, bool scales) {
  Matrix x(o.rows, o.cols), result(o.rows, scales ? 1 : o.cols);
  for (std::int64_t r = 0; r < o.rows; ++r)
    for (std::int64_t c = 0; c < o.cols; ++c) x(r, c) = memory.element(o, r, c);
  for (std::int64_t r = 0; r < o.rows; ++r) {
    const float factor = row_factor(DType::f8e4m3, x, r);
    if (scales) result(r, 0) = 1.0f / factor;
    for (std::int64_t c = 0; !scales && c < o.cols; ++c)
      result(r, c) = quantized(DType::f8e4m3, x(r, c), factor);
  }
  return result;
}

void check_results(const Case& c, const Memory& memory, const Contents& want, const Runner& runner) {
  const double error = c.growth * std::ldexp(1.0, -24) + (runner.multiplies_bf16() ? c.bf16_error : 0);
  for_each_operand(c.op, [&](const Operand& o, Access access, std::string_view name) {
    INFO(name);
    CHECK(memory.guards_intact(o));
    if (c.amax_of && name == "amax") {
      const auto amax = static_cast<float>(memory.element(o, 0, 0));
      CHECK(std::bit_cast<std::uint32_t>(amax) == largest_bits(memory, c.amax_of));
      return;
    }
    if (c.quantized_of && (name == "quantized" || name == "scale")) {
      CHECK(first_inexact(memory, o, quantized_rows(memory, c.quantized_of, name == "scale")) == "");
      return;
    }
    if (is_result(access))
      CHECK((c.exact ? first_inexact(memory, o, want[o]) : first_difference(memory, o, want[o], error)) ==
            "");
    if (access == Access::in) CHECK(first_difference(memory, o, c.contents[o], 0) == "");
  });
}

Contents expected(const Case& c, bool overwrite) {
  Contents want = c.contents;
  for_each_operand(c.op, [&](const Operand& o, Access access, std::string_view) {
    if (access == Access::accumulate) want[o] = Matrix(o.rows, o.cols);
  });
  c.reference(want);
  for_each_operand(c.op, [&](const Operand& o, Access access, std::string_view) {
    if (access != Access::accumulate || overwrite) return;
    for (std::size_t i = 0; i < want[o].values.size(); ++i) want[o].values[i] += c.contents[o].values[i];
  });
  return want;
}

/// Every allowed in-place pairing gives the bits of the run with separate operands.
void check_sharing(const Case& c, Runner& runner, const std::string& want) {
  for_each_share(c.op, [&](const Operand& written, const Operand& read) {
    if (written.dtype != read.dtype || written.rows != read.rows || written.cols != read.cols) return;
    INFO("value " << written.value << " in the place of " << read.value);
    Memory memory(c, runner);
    memory.alias(written, read);
    memory.reset(c, true);
    memory.run(c, 1, true);
    CHECK((snapshot(memory, c.op) == want));
    CHECK(memory.guards_intact(written));
  });
}

void check_gradient(const Case& c) {
  const Contents at = expected(c, true);
  for (const auto& [input, gradient] : c.gradient.input_and_gradient) {
    const Matrix& want = at[gradient];
    Contents moved = c.contents;
    const std::size_t n = want.values.size(), stride = n / 40 + 1;
    for (std::size_t i = 0; i < n; i += stride) {
      double& x = moved[input].values[i];
      const double centre = x, h = 1e-5 * std::max(1.0, std::abs(centre));
      x = centre + h;
      const double above = c.gradient.objective(moved);
      x = centre - h;
      const double below = c.gradient.objective(moved);
      x = centre;
      INFO("element " << i << " of value " << gradient.value << " against finite differences");
      CHECK((above - below) / (2 * h) == Approx(want.values[i]).epsilon(1e-5).margin(1e-6 * largest(want)));
    }
  }
}

}  // namespace

void check(const Case& c) {
  INFO(describe(c.op));
  if (c.gradient.objective) check_gradient(c);
  const Contents overwritten = expected(c, true), added = expected(c, false);
  for (const std::unique_ptr<Runner>& runner : runners()) {
    if (!runner->runs(c.op)) continue;
    INFO(runner->name());
    const std::vector<std::string> modes = runner->modes();
    Memory memory(c, *runner);
    memory.reset(c, false);
    memory.run(c, 1, false);
    check_results(c, memory, added, *runner);

    memory.reset(c, true);
    memory.run(c, 0, true);
    check_results(c, memory, overwritten, *runner);
    const std::string bits = snapshot(memory, c.op);
    for (int mode = 1; mode < static_cast<int>(modes.size()); ++mode) {
      INFO(modes[static_cast<std::size_t>(mode)]);
      memory.reset(c, true);
      memory.run(c, mode, true);
      CHECK((snapshot(memory, c.op) == bits));
    }
    check_sharing(c, *runner, bits);
  }
}

}  // namespace titan::op_test
