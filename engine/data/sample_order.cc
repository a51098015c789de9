#include "engine/data/sample_order.h"

#include "kernels/base/error.h"

#include <algorithm>
#include <bit>

namespace titan {

namespace {

constexpr int kRounds = 6;

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014): every input bit reaches every output bit.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace

Permutation::Permutation(uint64_t size, uint64_t key)
    : size_(size), key_(key), half_bits_(std::max(1, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2)) {
  TITAN_CHECK(size > 0);
}

uint64_t Permutation::operator()(uint64_t index) const {
  TITAN_CHECK_LT(index, size_);
  do index = encrypt(index);
  while (index >= size_);
  return index;
}

uint64_t Permutation::encrypt(uint64_t x) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = x >> half_bits_;
  uint64_t right = x & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t next = left ^ (mix(mix(key_ + round) ^ right) & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

SampleOrder::SampleOrder(int64_t windows, uint64_t seed) : windows_(windows), seed_(seed) {
  TITAN_CHECK(windows > 0, "windows = {}", windows);
}

int64_t SampleOrder::operator()(int64_t sample) const {
  TITAN_CHECK(sample >= 0, "sample = {}", sample);
  const Permutation permute(static_cast<uint64_t>(windows_),
                            mix(mix(seed_) + static_cast<uint64_t>(epoch(sample))));
  return static_cast<int64_t>(permute(static_cast<uint64_t>(sample % windows_)));
}

}  // namespace titan
