#include "engine/checkpoint/stored_type.h"

#include "kernels/base/error.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace titan;

namespace {

float round_trip(StoredType type, float value) {
  std::vector<std::byte> bytes(static_cast<size_t>(size_of(type)));
  encode(type, {&value, 1}, bytes.data());
  float back = 0;
  decode(type, bytes.data(), {&back, 1});
  return back;
}

}  // namespace

TEST_CASE("half types round to nearest even") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(round_trip(StoredType::f32, 0.1f) == 0.1f);
  CHECK(round_trip(StoredType::bf16, 1.00390625f) == 1.0f);        // half way, down to even
  CHECK(round_trip(StoredType::bf16, 1.01171875f) == 1.015625f);   // half way, up to even
  CHECK(round_trip(StoredType::bf16, 1.00390637f) == 1.0078125f);  // just above half way
  CHECK(round_trip(StoredType::bf16, 3.4e38f) == kInfinity);
  CHECK(round_trip(StoredType::bf16, -kInfinity) == -kInfinity);
  CHECK(std::isnan(round_trip(StoredType::bf16, std::nanf("1"))));
  CHECK(round_trip(StoredType::f16, 1.00048828125f) == 1.0f);
  CHECK(round_trip(StoredType::f16, 65504.0f) == 65504.0f);
  CHECK(round_trip(StoredType::f16, 70000.0f) == kInfinity);
  CHECK(round_trip(StoredType::f16, 5.9604645e-8f) == 5.9604645e-8f);  // smallest subnormal
  CHECK(std::isnan(round_trip(StoredType::f16, std::nanf("1"))));
}

TEST_CASE("every 16-bit pattern survives a round trip") {
  for (const StoredType type : {StoredType::bf16, StoredType::f16}) {
    int changed = 0;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto pattern = static_cast<uint16_t>(bits);
      std::byte bytes[2], back[2];
      std::memcpy(bytes, &pattern, 2);
      float value = 0;
      decode(type, bytes, {&value, 1});
      encode(type, {&value, 1}, back);
      changed += !std::isnan(value) && std::memcmp(bytes, back, 2) != 0;
    }
    CHECK(changed == 0);
  }
}

TEST_CASE("export_dtype is one of three") {
  CHECK(export_type("bfloat16") == StoredType::bf16);
  CHECK_THROWS_AS(export_type("fp8"), UsageError);
}
