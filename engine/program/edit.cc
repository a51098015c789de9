#include "engine/program/edit.h"

#include <algorithm>

#include "kernels/base/error.h"

namespace titan {
namespace {

void for_each_view(Program& program, ValueId base, FunctionRef<void(Value&)> f) {
  for (Value& v : program.values)
    if (v.base == base) f(v);
}

}  // namespace

void rebase(Program& program, ValueId id, ValueId storage, std::int64_t offset) {
  const Value home = program.value(storage);
  TITAN_CHECK(!home.is_view() && !program.value(id).is_view() && home.dtype == program.value(id).dtype,
              "rebase {} into {}", program.value(id).name, home.name);
  TITAN_CHECK_LE(offset + program.value(id).bytes(), home.bytes());
  const auto move = [&](Value& v) {
    v.base = storage;
    v.offset += offset;
    v.role = home.role;
    v.lifetime = home.lifetime;
    v.space = home.space;
  };
  for_each_view(program, id, move);
  move(program.value(id));
}

void retype(Program& program, ValueId id, DType dtype) {
  const std::int64_t from = size_of(program.value(id).dtype), to = size_of(dtype);
  const auto change = [&](Value& v) {
    v.dtype = dtype;
    v.offset = v.offset / from * to;
  };
  for_each_view(program, id, change);
  change(program.value(id));
}

ValueId copy_value(Program& program, ValueId id, std::string name) {
  Value copy = program.value(id);
  copy.name = std::move(name);
  program.values.push_back(std::move(copy));
  return static_cast<ValueId>(program.values.size()) - 1;
}

void refresh_operands(Program& program) {
  for (Segment& segment : program.segments)
    for (Node& node : segment.nodes)
      for_each_operand(node.op, [&](Operand& o, Access, std::string_view) {
        const Value& v = program.value(o.value);
        o.dtype = v.dtype;
        o.rows = v.rows;
        o.cols = v.cols;
        o.pitch = v.pitch;
      });
}

void redirect(Node& node, const std::function<ValueId(ValueId)>& replacement) {
  for_each_operand(node.op, [&](Operand& o, Access, std::string_view) { o.value = replacement(o.value); });
}

ValueId add_value(Program& program, std::string name, DType dtype, std::int64_t rows, std::int64_t cols,
                  Role role, Lifetime lifetime) {
  Value v;
  v.name = std::move(name);
  v.dtype = dtype;
  v.rows = rows;
  v.cols = v.pitch = cols;
  v.role = role;
  v.lifetime = lifetime;
  program.values.push_back(std::move(v));
  return static_cast<ValueId>(program.values.size()) - 1;
}

void move_to_host(Program& program, ValueId base) {
  TITAN_CHECK(!program.value(base).is_view(), "{} is a view", program.value(base).name);
  program.value(base).space = Space::host;
  for_each_view(program, base, [](Value& v) { v.space = Space::host; });
}

bool has_segment(const Program& program, std::string_view name) {
  return std::any_of(program.segments.begin(), program.segments.end(),
                     [&](const Segment& s) { return s.name == name; });
}

ValueId add_slice(Program& program, std::string name, ValueId base, std::int64_t offset, std::int64_t rows,
                  std::int64_t cols) {
  Value v = program.value(base);
  TITAN_CHECK(!v.is_view() && offset >= 0 && offset + rows * cols <= v.rows * v.cols, "slice {} of {}", name,
              v.name);
  v.name = std::move(name);
  v.base = base;
  v.offset = offset * size_of(v.dtype);
  v.rows = rows;
  v.cols = v.pitch = cols;
  program.values.push_back(std::move(v));
  return static_cast<ValueId>(program.values.size()) - 1;
}

void append_final_segment(Program& program, Segment segment) {
  program.timeline.push_back({.segment = static_cast<int>(program.segments.size()),
                              .variant = {program.micro_batches == 1, true},
                              .micro_batch = program.micro_batches - 1,
                              .slot = 0});
  program.segments.push_back(std::move(segment));
}

}  // namespace titan
