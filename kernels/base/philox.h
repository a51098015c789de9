// Philox4x32-10, a counter-based random number generator: random numbers are a pure function of (key,
// counter). Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace titan {

struct PhiloxKey {
  std::uint32_t lo, hi;
};

constexpr std::array<std::uint32_t, 4> philox(PhiloxKey key, std::array<std::uint32_t, 4> counter) {
  constexpr std::uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u, kWeyl0 = 0x9E3779B9u,
                          kWeyl1 = 0xBB67AE85u;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{kMul0} * counter[0];
    const std::uint64_t p1 = std::uint64_t{kMul1} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key.lo, static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key.hi, static_cast<std::uint32_t>(p0)};
    key.lo += kWeyl0;
    key.hi += kWeyl1;
  }
  return counter;
}

/// 64-bit FNV-1a: stable over platforms and versions, so that a parameter's name can key its random numbers.
constexpr std::uint64_t hash_name(std::string_view name) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return h;
}

/// The key of a named stream under a seed.
constexpr PhiloxKey philox_key(std::uint64_t seed, std::uint64_t stream) {
  const std::uint64_t mixed = (seed + 0x9E3779B97F4A7C15ull) * 0xBF58476D1CE4E5B9ull ^ stream;
  return {static_cast<std::uint32_t>(mixed), static_cast<std::uint32_t>(mixed >> 32)};
}

}  // namespace titan
