// The mesh: how many ranks stand along each axis, and where this rank stands. Pure data; order outer to inner
// as TorchTitan: pp, dp_replicate, dp_shard, cp, tp (tp is contiguous within a node).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "kernels/op/axis.h"

namespace titan {

class Mesh {
 public:
  static constexpr int kAxes = 5;  ///< the simple axes, pp … tp

  Mesh() { sizes_.fill(1); }
  /// Sizes in the order above, all at least 1; `rank` in [0, product). Throws UserError otherwise.
  Mesh(std::array<int, kAxes> sizes, int rank);

  /// Ranks along an axis, products included (dp, dp_shard_cp, world).
  int size(Axis axis) const;
  /// This rank's position along it.
  int coordinate(Axis axis) const;
  int rank() const { return rank_; }
  /// "pp2 dp_shard4 tp2"; "1 rank" when all are 1.
  std::string to_string() const;

 private:
  std::array<int, kAxes> sizes_{};
  std::array<int, kAxes> coordinates_{};
  int rank_ = 0;
};

}  // namespace titan
