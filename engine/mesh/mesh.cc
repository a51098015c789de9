#include "engine/mesh/mesh.h"

#include "kernels/base/error.h"

namespace titan {
namespace {

constexpr Axis kSimple[Mesh::kAxes] = {Axis::pp, Axis::dp_replicate, Axis::dp_shard, Axis::cp, Axis::tp};

/// First and last simple axis of a possibly composite one.
struct Span {
  int first, last;
};

Span span_of(Axis axis) {
  switch (axis) {
    case Axis::dp:
      return {1, 2};
    case Axis::dp_shard_cp:
      return {2, 3};
    case Axis::world:
      return {0, 4};
    default:
      return {static_cast<int>(axis), static_cast<int>(axis)};
  }
}

}  // namespace

Mesh::Mesh(std::array<int, kAxes> sizes, int rank) : sizes_(sizes), rank_(rank) {
  std::int64_t world = 1;
  for (int i = 0; i < kAxes; ++i) {
    if (sizes[i] < 1)
      throw UserError(fmt::format("mesh: axis {} has size {}; it must be at least 1",
                                  titan::to_string(kSimple[i]), sizes[i]));
    world *= sizes[i];
  }
  if (rank < 0 || rank >= world) throw UserError(fmt::format("mesh: rank {} of a world of {}", rank, world));
  int rest = rank;
  for (int i = kAxes - 1; i >= 0; --i) {
    coordinates_[i] = rest % sizes[i];
    rest /= sizes[i];
  }
}

int Mesh::size(Axis axis) const {
  const Span span = span_of(axis);
  int size = 1;
  for (int i = span.first; i <= span.last; ++i) size *= sizes_[i];
  return size;
}

int Mesh::coordinate(Axis axis) const {
  const Span span = span_of(axis);
  int coordinate = 0;
  for (int i = span.first; i <= span.last; ++i) coordinate = coordinate * sizes_[i] + coordinates_[i];
  return coordinate;
}

std::string Mesh::to_string() const {
  std::string text;
  for (int i = 0; i < kAxes; ++i)
    if (sizes_[i] > 1)
      text += fmt::format("{}{}{}", text.empty() ? "" : " ", titan::to_string(kSimple[i]), sizes_[i]);
  return text.empty() ? "1 rank" : text;
}

}  // namespace titan
