#include "app/trainer/state.h"

#include <map>
#include <utility>

#include "engine/executor/executor.h"
#include "kernels/base/function_ref.h"

namespace titan {
namespace {

Piece piece_of(const Parameter& p, const Value& master) {
  if (p.one_dimensional)
    return box_piece(p.name, {p.global_cols}, {.offset = {p.first_col}, .size = {master.cols}});
  return box_piece(p.name, {p.global_rows, p.global_cols},
                   {.offset = {p.first_row, p.first_col}, .size = {master.rows, master.cols}});
}

/// Calls f with every parameter and every kind of state that the program has of it.
void for_each_tensor(const Program& program, FunctionRef<void(const Parameter&, StateKind, ValueId)> f) {
  for (const Parameter& p : program.parameters)
    for (const auto& [kind, value] :
         {std::pair{StateKind::parameter, p.master}, std::pair{StateKind::exp_avg, p.exp_avg},
          std::pair{StateKind::exp_avg_sq, p.exp_avg_sq}})
      if (value != kNoValue) f(p, kind, value);
}

/// How a save reads, and a load writes, a tensor that the host cannot address.
void attach(StateTensor& tensor, const Executor& executor, int program, ValueId value) {
  tensor.read = [&executor, program, value](std::int64_t begin, std::span<float> out) {
    executor.read_elements(program, value, begin, out);
  };
}
void attach(WantedTensor& tensor, const Executor& executor, int program, ValueId value) {
  tensor.write = [&executor, program, value](std::int64_t begin, std::span<const float> values) {
    executor.write_elements(program, value, begin, values);
  };
}

template <class Tensor>
std::vector<Tensor> state_of(const Job& job, const Executor* executor) {
  // The last program trains, evaluates or generates; all that precede it set up its values.
  const int index = job.has("train") ? job.index("train") : static_cast<int>(job.programs.size()) - 1;
  const Program& program = job.programs[static_cast<std::size_t>(index)];
  std::vector<Tensor> state;
  for_each_tensor(program, [&](const Parameter& p, StateKind kind, ValueId value) {
    Tensor tensor{.piece = piece_of(p, program.value(value)), .kind = kind};
    if (executor != nullptr && executor->host_addressable(index, value))
      tensor.data = reinterpret_cast<float*>(executor->address(index, value));
    else if (executor != nullptr)
      attach(tensor, *executor, index, value);
    state.push_back(std::move(tensor));
  });
  return state;
}

}  // namespace

std::vector<StateTensor> stored_state(const Job& job, const Executor& executor) {
  return state_of<StateTensor>(job, &executor);
}
std::vector<StateTensor> staged_state(const Job& job, const Executor& executor) {
  const int index = job.index("train_staging");
  const Program& program = job.program("train_staging");
  std::map<ValueId, std::byte*> copies;  // of buckets
  for (const Node& node : program.segment("stage").nodes) {
    const auto& copy = std::get<Copy>(node.op);
    copies[copy.x.value] = executor.address(index, copy.y.value);
  }
  std::vector<StateTensor> state;
  for_each_tensor(program, [&](const Parameter& p, StateKind kind, ValueId id) {
    const Value& value = program.value(id);
    state.push_back({.piece = piece_of(p, value),
                     .kind = kind,
                     .data = reinterpret_cast<const float*>(copies.at(value.base) + value.offset)});
  });
  return state;
}
std::vector<WantedTensor> wanted_state(const Job& job, const Executor& executor) {
  return state_of<WantedTensor>(job, &executor);
}
std::vector<WantedTensor> wanted_state(const Job& job) { return state_of<WantedTensor>(job, nullptr); }

}  // namespace titan
