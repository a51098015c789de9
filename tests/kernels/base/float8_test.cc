// 8-bit floats against a reference in double precision that knows only the formats' definition.
#include "kernels/base/float8.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

namespace titan {
namespace {

struct Format {
  DType dtype;
  int fraction_bits, bias;
  double largest;
};
constexpr Format kFormats[] = {{DType::f8e4m3, 3, 7, 448}, {DType::f8e5m2, 2, 15, 57344}};

double value(const Format& f, int code) {
  const int fraction = code & ((1 << f.fraction_bits) - 1), exponent = (code & 0x7f) >> f.fraction_bits;
  const double sign = (code & 0x80) != 0 ? -1 : 1;
  const int largest_exponent = f.dtype == DType::f8e5m2 ? 31 : 16;
  if (exponent == largest_exponent) return fraction == 0 ? sign * INFINITY : NAN;
  if (f.dtype == DType::f8e4m3 && (code & 0x7f) == 0x7f) return NAN;
  const double significand = std::ldexp(fraction, -f.fraction_bits) + (exponent == 0 ? 0 : 1);
  return sign * std::ldexp(significand, std::max(exponent, 1) - f.bias);
}

double from_code(const Format& f, int code) {
  const auto bits = static_cast<std::uint8_t>(code);
  return f.dtype == DType::f8e4m3 ? to_float(f8e4m3{bits}) : to_float(f8e5m2{bits});
}

int to_code(const Format& f, double x) {
  const auto single = static_cast<float>(x);
  return f.dtype == DType::f8e4m3 ? to_f8e4m3(single).bits : to_f8e5m2(single).bits;
}

/// The code of the nearest finite value, the even one of two; only codes of x's sign.
int nearest(const Format& f, double unbounded) {
  const double x = std::clamp(unbounded, -f.largest, f.largest);
  int best = std::signbit(x) ? 0x80 : 0;
  for (int i = 1; i < 0x80; ++i) {
    const int code = (std::signbit(x) ? 0x80 : 0) | i;
    if (!std::isfinite(value(f, code))) break;
    const double distance = std::abs(value(f, code) - x), before = std::abs(value(f, best) - x);
    if (distance < before || (distance == before && i % 2 == 0)) best = code;
  }
  return best;
}

TEST_CASE("every 8-bit code has the value of its format") {
  for (const Format& f : kFormats)
    for (int code = 0; code < 256; ++code) {
      INFO(to_string(f.dtype) << " code " << code);
      const double want = value(f, code), got = from_code(f, code);
      if (std::isnan(want)) {
        CHECK(std::isnan(got));
        continue;
      }
      CHECK(got == want);
      CHECK(std::signbit(got) == std::signbit(want));
      if (std::isfinite(want)) CHECK(to_code(f, want) == code);
    }
  CHECK(from_code(kFormats[0], 0x7e) == 448);
  CHECK(from_code(kFormats[1], 0x7b) == 57344);
  CHECK(float8_max(DType::f8e4m3) == 448);
  CHECK(float8_max(DType::f8e5m2) == 57344);
}

TEST_CASE("values round to the nearest 8-bit one, ties to even, at every boundary") {
  for (const Format& f : kFormats)
    for (int code = 0; code < 0x80; ++code) {
      const double low = value(f, code), high = value(f, code + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) continue;
      const auto middle = static_cast<float>((low + high) / 2);
      const float infinity = std::numeric_limits<float>::infinity();
      for (const float x :
           {static_cast<float>(low), middle, std::nextafter(middle, 0.0f), std::nextafter(middle, infinity),
            std::nextafter(static_cast<float>(low), infinity),
            std::nextafter(static_cast<float>(high), 0.0f)})
        for (const double signed_x : {x, -x}) {
          INFO(to_string(f.dtype) << " of " << signed_x);
          CHECK(to_code(f, signed_x) == nearest(f, signed_x));
        }
    }
}

TEST_CASE("every bf16 rounds as its definition says") {
  for (const Format& f : kFormats) {
    int wrong = 0;
    for (std::uint32_t high = 0; high < 0x10000; ++high) {
      const float x = std::bit_cast<float>(high << 16);
      if (std::isnan(x))
        wrong += to_code(f, x) == 0x7f ? 0 : 1;
      else
        wrong += to_code(f, x) == nearest(f, x) ? 0 : 1;
    }
    INFO(to_string(f.dtype));
    CHECK(wrong == 0);
  }
}

TEST_CASE("what is too large for 8 bits saturates") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float x : {449.0f, 464.0f, 480.0f, 1e30f, infinity}) {
    CHECK(to_float(to_f8e4m3(x)) == 448);
    CHECK(to_float(to_f8e4m3(-x)) == -448);
  }
  for (const float x : {60000.0f, 61440.0f, 65536.0f, 1e30f, infinity}) {
    CHECK(to_float(to_f8e5m2(x)) == 57344);
    CHECK(to_float(to_f8e5m2(-x)) == -57344);
  }
}

TEST_CASE("the factor maps the largest magnitude onto the format's, and hides no NaN") {
  CHECK(float8_factor(DType::f8e4m3, 4.0f) == 112);
  CHECK(float8_factor(DType::f8e5m2, 7.0f) == 8192);
  CHECK(float8_factor(DType::f8e4m3, 0.0f) == Approx(4.48e14));
  CHECK(float8_factor(DType::f8e4m3, INFINITY) == 0);
  CHECK(std::isnan(float8_factor(DType::f8e4m3, NAN)));
  CHECK(floor_to_power_of_two(112) == 64);
  CHECK(floor_to_power_of_two(64) == 64);
  CHECK(floor_to_power_of_two(std::nextafter(64.0f, 0.0f)) == 32);
  CHECK(floor_to_power_of_two(0) == 0);
  CHECK(std::isnan(floor_to_power_of_two(NAN)));
}

}  // namespace
}  // namespace titan
