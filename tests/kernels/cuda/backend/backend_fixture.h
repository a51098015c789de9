// Values and commands that the tests of the CUDA backend share.
#pragma once

#include <vector>

#include "kernels/op/backend.h"
#include "tests/support/commands.h"

namespace titan::cuda {

using test::CommandList;
using test::operand;

inline constexpr std::int64_t kN = 1000;

inline Fill fill(ValueId value, float x) { return {.y = operand<Out>(value, DType::f32, 1, kN), .value = x}; }
inline Add add(ValueId a, ValueId b, ValueId y) {
  return {.a = operand<In>(a, DType::f32, 1, kN),
          .b = operand<In>(b, DType::f32, 1, kN),
          .y = operand<Out>(y, DType::f32, 1, kN)};
}

/// `count` values of kN floats in one block of the backend.
inline std::vector<std::byte*> values(Backend& backend, int count, Space space = Space::device) {
  std::byte* block = backend.allocate(space, count * kN * 4);
  std::vector<std::byte*> addresses;
  for (int i = 0; i < count; ++i) addresses.push_back(block + i * kN * 4);
  return addresses;
}

inline float last(Backend& backend, const CommandList& list, ValueId value) {
  float x = 0;
  backend.download(list.commands()[0].binding.addresses[value] + (kN - 1) * 4, &x, sizeof x);
  return x;
}

}  // namespace titan::cuda
