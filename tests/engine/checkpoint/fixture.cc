#include "tests/engine/checkpoint/fixture.h"

#include "kernels/base/error.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <thread>

namespace titan::test {

class ThreadGroup::Member final : public Coordinator {
 public:
  Member(ThreadGroup& group, int rank) : group_(group), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_.slots_.size()); }
  std::vector<std::string> gather(std::string value, std::chrono::seconds) override {
    group_.slots_[static_cast<size_t>(rank_)] = std::move(value);
    group_.barrier_.arrive_and_wait();
    std::vector<std::string> all;
    if (rank_ == 0) all = group_.slots_;
    group_.barrier_.arrive_and_wait();
    return all;
  }
  std::string broadcast(std::string value, std::chrono::seconds) override {
    if (rank_ == 0) group_.broadcast_ = std::move(value);
    group_.barrier_.arrive_and_wait();
    std::string received = group_.broadcast_;
    group_.barrier_.arrive_and_wait();
    return received;
  }

 private:
  ThreadGroup& group_;
  int rank_;
};

void ThreadGroup::run(const std::function<void(Coordinator&)>& body) {
  std::vector<std::exception_ptr> errors(slots_.size());
  {
    std::vector<std::jthread> threads;
    for (size_t rank = 0; rank < slots_.size(); ++rank)
      threads.emplace_back([&, rank] {
        Member member(*this, static_cast<int>(rank));
        try {
          body(member);
        } catch (...) {
          errors[rank] = std::current_exception();
        }
      });
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

std::vector<Parameter> small_model() {
  return {{"model.embed_tokens.weight", {37, 16}},
          {"model.layers.0.mlp.up_proj.weight", {24, 16}},
          {"model.layers.0.mlp.down_proj.weight", {16, 24}},
          {"model.norm.weight", {16}}};
}

float value_of(const Parameter& parameter, StateKind kind, int64_t index, int64_t step) {
  const size_t salt = std::hash<std::string>{}(parameter.name) + static_cast<size_t>(kind) * 7919 +
                      static_cast<size_t>(step) * 104729;
  std::minstd_rand random(static_cast<unsigned>(salt + static_cast<size_t>(index) * 2654435761u));
  random.discard(2);
  return static_cast<float>(random()) / static_cast<float>(random.max()) - 0.5f;
}

int64_t global_index(const Piece& piece, int64_t local) {
  const int64_t inside = piece.flat_begin + local;
  const auto& [offset, size] = piece.box;
  if (offset.size() == 1) return offset[0] + inside;
  return (offset[0] + inside / size[1]) * piece.global_shape[1] + offset[1] + inside % size[1];
}

RankState::RankState(std::vector<Piece> pieces, bool with_moments) {
  for (const Piece& piece : pieces)
    for (const StateKind kind : {StateKind::parameter, StateKind::exp_avg, StateKind::exp_avg_sq})
      if (with_moments || kind == StateKind::parameter)
        entries.push_back({piece, kind, std::vector<float>(static_cast<size_t>(piece.elements()))});
}

std::vector<StateTensor> RankState::tensors() const {
  std::vector<StateTensor> tensors;
  for (const Entry& entry : entries) tensors.push_back({entry.piece, entry.kind, entry.data.data()});
  return tensors;
}

std::vector<WantedTensor> RankState::wanted() {
  std::vector<WantedTensor> wanted;
  for (Entry& entry : entries) wanted.push_back({entry.piece, entry.kind, entry.data.data()});
  return wanted;
}

void RankState::fill(int64_t step) {
  for (Entry& entry : entries) {
    const Parameter parameter{entry.piece.parameter, entry.piece.global_shape};
    for (size_t i = 0; i < entry.data.size(); ++i)
      entry.data[i] =
          value_of(parameter, entry.kind, global_index(entry.piece, static_cast<int64_t>(i)), step);
  }
}

int64_t RankState::wrong(int64_t step) const {
  RankState expected = *this;
  expected.fill(step);
  int64_t wrong = 0;
  for (size_t e = 0; e < entries.size(); ++e)
    for (size_t i = 0; i < entries[e].data.size(); ++i)
      wrong +=
          std::bit_cast<uint32_t>(entries[e].data[i]) != std::bit_cast<uint32_t>(expected.entries[e].data[i]);
  return wrong;
}

RankState whole_state(bool with_moments) {
  std::vector<Piece> pieces;
  for (const Parameter& parameter : small_model())
    pieces.push_back(whole_piece(parameter.name, parameter.shape));
  return RankState(pieces, with_moments);
}

namespace {

int64_t pick(int64_t low, int64_t high, std::mt19937& random) {
  return std::uniform_int_distribution(low, high)(random);
}

/// `parts` + 1 increasing places from 0 to `size`.
std::vector<int64_t> random_cuts(int64_t size, int parts, std::mt19937& random) {
  std::vector<int64_t> cuts{0, size};
  while (static_cast<int>(cuts.size()) <= parts) cuts.push_back(pick(0, size, random));
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace

std::vector<std::vector<Piece>> random_layout(int ranks, std::mt19937& random) {
  std::vector<std::vector<Piece>> layout(static_cast<size_t>(ranks));
  const int boxes = ranks % 2 == 0 && pick(0, 1, random) == 1 ? 2 : 1;
  for (const Parameter& parameter : small_model()) {
    const auto dimension =
        static_cast<size_t>(pick(0, static_cast<int64_t>(parameter.shape.size()) - 1, random));
    const auto box_cuts = random_cuts(parameter.shape[dimension], boxes, random);
    for (int b = 0; b < boxes; ++b) {
      Box box{std::vector<int64_t>(parameter.shape.size(), 0), parameter.shape};
      box.offset[dimension] = box_cuts[static_cast<size_t>(b)];
      box.size[dimension] = box_cuts[static_cast<size_t>(b) + 1] - box.offset[dimension];
      const int shards = ranks / boxes;
      const auto cuts =
          random_cuts(box_piece(parameter.name, parameter.shape, box).elements(), shards, random);
      for (int s = 0; s < shards; ++s)
        layout[static_cast<size_t>(b * shards + s)].push_back(flat_piece(parameter.name, parameter.shape, box,
                                                                         cuts[static_cast<size_t>(s)],
                                                                         cuts[static_cast<size_t>(s) + 1]));
    }
  }
  return layout;
}

RunState run_at(int64_t step) {
  return {step,
          step * 8,
          step * 8 * 64,
          step / 4,
          8,
          1,
          "dp 1",
          "[training]\nsteps = 10\n",
          R"({"hidden_size": 16})",
          "corpus"};
}

SaveResult save_small(const std::filesystem::path& folder, int64_t step, SaveOptions options) {
  options.block_bytes = 1024;
  RankState state = whole_state();
  state.fill(step);
  SoloCoordinator solo;
  return save_checkpoint(folder, {run_at(step), state.tensors()}, solo, options);
}

int64_t load_small(const std::filesystem::path& checkpoint, int64_t step) {
  RankState state = whole_state();
  load_checkpoint(checkpoint, state.wanted());
  return state.wrong(step);
}

std::string user_error(const std::function<void()>& body) {
  try {
    body();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace titan::test
