// Mesh axes a collective can run over, and what a reduction computes.
#pragma once

#include <cstdint>

namespace titan {

/// Outer to inner as TorchTitan orders them; the last three are products: data loading, loss and everything.
enum class Axis : std::uint8_t { pp, dp_replicate, dp_shard, cp, tp, dp, dp_shard_cp, world };
enum class Reduction : std::uint8_t { sum, max };

constexpr const char* to_string(Axis axis) {
  constexpr const char* kNames[] = {"pp", "dp_replicate", "dp_shard",    "cp",
                                    "tp", "dp",           "dp_shard_cp", "world"};
  return kNames[static_cast<int>(axis)];
}
constexpr const char* to_string(Reduction r) { return r == Reduction::sum ? "sum" : "max"; }

}  // namespace titan
