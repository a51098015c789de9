// The order of training samples: a pure function of (seed, global sample number) that needs no memory.
#pragma once

#include <cstdint>

namespace titan {

/// A bijection of [0, size): a Feistel network over the next even number of bits, applied until it lands
/// below `size` again (cycle walking; fewer than 4 rounds on average).
class Permutation {
 public:
  Permutation(uint64_t size, uint64_t key);
  uint64_t operator()(uint64_t index) const;  ///< index < size

 private:
  uint64_t encrypt(uint64_t x) const;
  uint64_t size_;
  uint64_t key_;
  int half_bits_;
};

/// Sample k of a run is window `order(k)`: each epoch (k / windows) visits every window once, in an order of
/// its own.
class SampleOrder {
 public:
  SampleOrder(int64_t windows, uint64_t seed);
  int64_t operator()(int64_t sample) const;
  int64_t epoch(int64_t sample) const { return sample / windows_; }
  int64_t windows() const { return windows_; }

 private:
  int64_t windows_;
  uint64_t seed_;
};

}  // namespace titan
