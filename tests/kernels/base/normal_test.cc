#include "kernels/base/normal.h"

#include <catch2/catch.hpp>

#include "kernels/base/philox.h"

namespace titan {
namespace {

TEST_CASE("philox gives the published numbers") {
  // Random123's known answers for philox4x32-10.
  using Words = std::array<std::uint32_t, 4>;
  CHECK(philox({0, 0}, {0, 0, 0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({~0u, ~0u}, {~0u, ~0u, ~0u, ~0u}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
}

TEST_CASE("portable_log is the logarithm") {
  for (double x = 1e-12; x < 1e12; x *= 1.37)
    CHECK(portable_log(x) == Approx(std::log(x)).epsilon(1e-11).margin(1e-11));
  CHECK(portable_log(1) == 0);
}

TEST_CASE("normal_quantile inverts the normal distribution") {
  for (double z = -6.2; z <= 6.2; z += 0.01) {
    const double p = 0.5 * std::erfc(-z / std::sqrt(2.0));
    // Near 1 the rounding of p moves z.
    CHECK(normal_quantile(p) ==
          Approx(z).epsilon(3e-7).margin(1e-8 + (z > 4 ? 1e-15 * std::exp(z * z / 2) : 0)));
  }
  CHECK(normal_quantile(0.5) == 0);
}

TEST_CASE("normal_cdf is the distribution function") {
  for (double z = -4; z <= 4; z += 0.25)
    CHECK(normal_cdf(z) == Approx(0.5 * std::erfc(-z / std::sqrt(2.0))).epsilon(2e-6));
  CHECK(normal_quantile(normal_cdf(-3)) == Approx(-3).epsilon(1e-12));
}

}  // namespace
}  // namespace titan
