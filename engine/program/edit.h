// What passes do to programs: move values into other storage, copy values, point nodes elsewhere.
#pragma once

#include <functional>
#include <string>

#include "engine/program/program.h"

namespace titan {

/// Makes the base `id` a view at `offset` bytes of the base `storage`, its own views with it. Both must have
/// one dtype. The value takes over the storage's role, lifetime and space. Operands of nodes change with the
/// next refresh_operands.
void rebase(Program& program, ValueId id, ValueId storage, std::int64_t offset);

/// Changes the dtype of a contiguous base and of its views (their offsets scale).
void retype(Program& program, ValueId id, DType dtype);

/// A copy of the value's declaration under another name. A view's copy is a view of the same base.
ValueId copy_value(Program& program, ValueId id, std::string name);

/// Brings dtype, shape and pitch of all operands up to date with their values.
void refresh_operands(Program& program);

/// Replaces value ids in a node's operands.
void redirect(Node& node, const std::function<ValueId(ValueId)>& replacement);

/// A value of a new base.
ValueId add_value(Program& program, std::string name, DType dtype, std::int64_t rows, std::int64_t cols,
                  Role role, Lifetime lifetime);

/// Puts a base and its views into host memory.
void move_to_host(Program& program, ValueId base);

bool has_segment(const Program& program, std::string_view name);

/// A contiguous [rows, cols] view, `offset` elements into a base.
ValueId add_slice(Program& program, std::string name, ValueId base, std::int64_t offset, std::int64_t rows,
                  std::int64_t cols);

/// Appends a segment that runs once a step, after all micro-batches.
void append_final_segment(Program& program, Segment segment);

/// An operand of the given kind for a value.
template <class OperandType>
OperandType operand(const Program& program, ValueId id) {
  const Value& v = program.value(id);
  OperandType o{};
  static_cast<Operand&>(o) = Operand{id, v.dtype, v.rows, v.cols, v.pitch};
  return o;
}

}  // namespace titan
