#include "engine/program/builder.h"

#include <algorithm>

#include "kernels/base/error.h"

namespace titan {

ValueId ProgramBuilder::value(std::string name, DType dtype, std::int64_t rows, std::int64_t cols,
                              Spec spec) {
  TITAN_CHECK(rows >= 0 && cols >= 0, "{} is [{}, {}]", name, rows, cols);
  program_.values.push_back({.name = std::move(name),
                             .dtype = dtype,
                             .rows = rows,
                             .cols = cols,
                             .pitch = cols,
                             .role = spec.role,
                             .lifetime = spec.lifetime,
                             .space = spec.space});
  return static_cast<ValueId>(program_.values.size()) - 1;
}

ValueId ProgramBuilder::add_view(std::string name, ValueId of, std::int64_t offset_bytes, std::int64_t rows,
                                 std::int64_t cols, std::int64_t pitch) {
  Value v = program_.value(of);
  v.base = program_.base_of(of);
  v.name = std::move(name);
  v.offset += offset_bytes;
  v.rows = rows;
  v.cols = cols;
  v.pitch = pitch;
  program_.values.push_back(std::move(v));
  return static_cast<ValueId>(program_.values.size()) - 1;
}

ValueId ProgramBuilder::view(std::string name, ValueId of, std::int64_t row, std::int64_t rows,
                             std::int64_t col, std::int64_t cols) {
  const Value& v = program_.value(of);
  TITAN_CHECK(row >= 0 && col >= 0 && row + rows <= v.rows && col + cols <= v.cols, "view {} of {} [{}, {}]",
              name, v.name, v.rows, v.cols);
  return add_view(std::move(name), of, (row * v.pitch + col) * size_of(v.dtype), rows, cols, v.pitch);
}

ValueId ProgramBuilder::reshape(std::string name, ValueId of, std::int64_t rows, std::int64_t cols) {
  const Value& v = program_.value(of);
  TITAN_CHECK((v.pitch == v.cols || v.rows <= 1) && rows * cols == v.rows * v.cols, "reshape {} of {}", name,
              v.name);
  return add_view(std::move(name), of, 0, rows, cols, cols);
}

ValueId ProgramBuilder::slice(std::string name, ValueId of, std::int64_t offset, std::int64_t rows,
                              std::int64_t cols) {
  const Value& v = program_.value(of);
  TITAN_CHECK((v.pitch == v.cols || v.rows <= 1) && offset >= 0 && offset + rows * cols <= v.rows * v.cols,
              "slice {} of {}", name, v.name);
  return add_view(std::move(name), of, offset * size_of(v.dtype), rows, cols, cols);
}

void ProgramBuilder::begin_segment(std::string name) { program_.segments.push_back({std::move(name), {}}); }

NodeId ProgramBuilder::emit(Op op, Lane lane) {
  TITAN_CHECK(!program_.segments.empty(), "emit before begin_segment");
  program_.segments.back().nodes.push_back({std::move(op), lane, tag_, program_.next_node, {}});
  return program_.next_node++;
}

NodeId ProgramBuilder::emit(Op op, Phase phase, Lane lane) {
  const Tag saved = tag_;
  tag_.phase = phase;
  const NodeId id = emit(std::move(op), lane);
  tag_ = saved;
  return id;
}

void set_accumulation_timeline(Program& program, int micro_batches) {
  TITAN_CHECK(micro_batches >= 1);
  program.micro_batches = micro_batches;
  program.slots = 1;
  program.timeline.clear();
  const auto add = [&](std::string_view name, int micro_batch) {
    const auto it = std::find_if(program.segments.begin(), program.segments.end(),
                                 [&](const Segment& s) { return s.name == name; });
    if (it == program.segments.end()) return;
    program.timeline.push_back({.segment = static_cast<int>(it - program.segments.begin()),
                                .variant = {micro_batch == 0, micro_batch == micro_batches - 1},
                                .micro_batch = micro_batch,
                                .slot = 0});
  };
  add("gather", 0);
  for (int m = 0; m < micro_batches; ++m) {
    add("forward", m);
    add("backward", m);
  }
  add("optimizer", micro_batches - 1);
}

void set_straight_timeline(Program& program) {
  program.timeline.clear();
  for (std::size_t i = 0; i < program.segments.size(); ++i)
    program.timeline.push_back({.segment = static_cast<int>(i), .variant = {}});
}

}  // namespace titan
