// Normal random numbers from uniform ones, the same bits on every machine: only additions, multiplications,
// divisions and square roots of f64, which IEEE 754 defines exactly. Compile without contraction
// (-ffp-contract=off, nvcc -fmad=false). constexpr, so that nvcc compiles them for the device too.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace titan {

/// ln x for normal x > 0, relative error < 1e-11: x = 2^e·m, ln m = 2·artanh((m − 1)/(m + 1)).
constexpr double portable_log(double x) {
  constexpr std::uint64_t kSqrtHalf = 0x3fe6a09e667f3bcdull;  // sqrt(1/2): m is in [sqrt(1/2), sqrt(2))
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  const std::int64_t e = static_cast<std::int64_t>(bits - kSqrtHalf) >> 52;
  const double m = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(e) << 52));
  const double s = (m - 1) / (m + 1), s2 = s * s;
  double series = 1.0 / 13;
  for (int k = 11; k >= 1; k -= 2) series = series * s2 + 1.0 / k;
  return static_cast<double>(e) * 0.6931471805599453 + 2 * s * series;
}

/// The z with Φ(z) = p, for 1.4e-11 < p < 1 − 1.4e-11; relative error about 1e-7. Source: Wichura, "Algorithm
/// AS 241: the percentage points of the normal distribution", Applied Statistics 37 (1988), routine PPND7,
/// without its far tail.
constexpr double normal_quantile(double p) {
  const double q = p - 0.5;
  if (-0.425 <= q && q <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * (((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179) /
           (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0);
  }
  const double r = std::sqrt(-portable_log(q < 0 ? p : 1 - p)) - 1.6;
  const double z = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
                   ((0.12021132975 * r + 0.73700164250) * r + 1.0);
  return q < 0 ? -z : z;
}

/// Φ(z) as the inverse of normal_quantile, by bisection: |z| < 6.5.
constexpr double normal_cdf(double z) {
  double low = 2e-11, high = 1 - 2e-11;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (normal_quantile(middle) < z ? low : high) = middle;
  }
  return low;
}

}  // namespace titan
