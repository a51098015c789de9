// Builds a command list by hand, as the executor would.
#pragma once

#include <deque>
#include <initializer_list>
#include <map>
#include <span>
#include <vector>

#include "kernels/op/backend.h"

namespace titan::test {

/// A contiguous operand.
template <class OperandType>
OperandType operand(ValueId value, DType dtype, std::int64_t rows, std::int64_t cols) {
  OperandType o;
  static_cast<Operand&>(o) = {.value = value, .dtype = dtype, .rows = rows, .cols = cols, .pitch = cols};
  return o;
}

/// Commands over values at fixed addresses.
class CommandList {
 public:
  explicit CommandList(std::vector<std::byte*> addresses) : addresses_(std::move(addresses)) {}

  /// Appends op to its lane, after the given earlier positions of other lanes; returns its own position.
  Wait add(int lane, Op op, std::initializer_list<Wait> after = {}, std::uint32_t overwrite = 0) {
    const Op& kept = ops_.emplace_back(std::move(op));
    const auto& waits = waits_.emplace_back(after);
    commands_.push_back({.op = &kept,
                         .binding = {.addresses = addresses_.data(), .overwrite = overwrite},
                         .lane = lane,
                         .ticket = ++tickets_[lane],
                         .waits = waits,
                         .signals = true});
    return {lane, tickets_[lane]};
  }
  std::span<const Command> commands() const { return commands_; }
  std::vector<Command>& mutable_commands() { return commands_; }

 private:
  std::vector<std::byte*> addresses_;
  std::deque<Op> ops_;
  std::deque<std::vector<Wait>> waits_;
  std::map<int, std::int64_t> tickets_;
  std::vector<Command> commands_;
};

}  // namespace titan::test
