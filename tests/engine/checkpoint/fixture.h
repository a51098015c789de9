// A small model whose every element has a known value, cut into pieces as layouts do, and ranks that are
// threads.
#pragma once

#include "engine/checkpoint/load.h"
#include "engine/checkpoint/save.h"

#include <barrier>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace titan::test {

/// Ranks as threads of one process.
class ThreadGroup {
 public:
  explicit ThreadGroup(int size) : barrier_(size), slots_(static_cast<size_t>(size)) {}
  /// Runs `body` once a rank; rethrows what rank 0 threw, or else another.
  void run(const std::function<void(Coordinator&)>& body);

 private:
  class Member;
  std::barrier<> barrier_;
  std::vector<std::string> slots_;
  std::string broadcast_;
};

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
};
/// An embedding, two matrices and a norm: 2-D and 1-D, odd sizes.
std::vector<Parameter> small_model();

/// The value of element `index` (row-major in the whole parameter). A different one for each parameter, kind
/// and step.
float value_of(const Parameter& parameter, StateKind kind, int64_t index, int64_t step);
/// Where element `local` of a piece lies in the whole parameter.
int64_t global_index(const Piece& piece, int64_t local);

/// Memory of one rank: its pieces with all three kinds.
struct RankState {
  explicit RankState(std::vector<Piece> pieces, bool with_moments = true);
  std::vector<StateTensor> tensors() const;
  std::vector<WantedTensor> wanted();
  void fill(int64_t step);            ///< with the known values
  int64_t wrong(int64_t step) const;  ///< elements that are not bitwise the known values

  struct Entry {
    Piece piece;
    StateKind kind;
    std::vector<float> data;
  };
  std::vector<Entry> entries;
};

RankState whole_state(bool with_moments = true);
/// The pieces of each of `ranks` ranks: every parameter cut by rows, by columns or not at all, then into flat
/// ranges, at random places.
std::vector<std::vector<Piece>> random_layout(int ranks, std::mt19937& random);

RunState run_at(int64_t step);
/// Saves the whole small model from one rank, in blocks of 1 KiB.
SaveResult save_small(const std::filesystem::path& folder, int64_t step, SaveOptions options = {});
/// Loads it and counts wrong elements.
int64_t load_small(const std::filesystem::path& checkpoint, int64_t step);

/// Runs `body`, which must throw UserError, and gives its message; "" if it threw nothing.
std::string user_error(const std::function<void()>& body);

}  // namespace titan::test
