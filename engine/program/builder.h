// ProgramBuilder: the way programs are written. Declare values, emit ops over them in order.
#pragma once

#include <string>

#include "engine/program/program.h"

namespace titan {

class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string name) { program_.name = std::move(name); }

  struct Spec {
    Role role = Role::activation;
    Lifetime lifetime = Lifetime::slot;
    Space space = Space::device;
  };
  ValueId value(std::string name, DType dtype, std::int64_t rows, std::int64_t cols, Spec spec);
  ValueId value(std::string name, DType dtype, std::int64_t rows, std::int64_t cols) {
    return value(std::move(name), dtype, rows, cols, Spec{});
  }
  /// Rows [row, row+rows) and columns [col, col+cols) of `of` (which may itself be a view).
  ValueId view(std::string name, ValueId of, std::int64_t row, std::int64_t rows, std::int64_t col,
               std::int64_t cols);
  /// All of `of`, which must be contiguous, seen as [rows, cols].
  ValueId reshape(std::string name, ValueId of, std::int64_t rows, std::int64_t cols);
  /// [rows, cols] of contiguous elements that start `offset` elements into `of`: a parameter in a flat
  /// bucket.
  ValueId slice(std::string name, ValueId of, std::int64_t offset, std::int64_t rows, std::int64_t cols);

  In in(ValueId v) const { return make<In>(v); }
  Out out(ValueId v) const { return make<Out>(v); }
  Accumulate accumulate(ValueId v) const { return make<Accumulate>(v); }
  State state(ValueId v) const { return make<State>(v); }
  Scratch scratch(ValueId v) const { return make<Scratch>(v); }
  Result result(ValueId v, bool accumulates = false) const {
    Result r = make<Result>(v);
    r.accumulates = accumulates;
    return r;
  }

  /// Nodes are emitted into the current segment, with the current tag, on the given lane.
  void begin_segment(std::string name);
  void set_tag(Tag tag) { tag_ = tag; }
  Tag tag() const { return tag_; }
  NodeId emit(Op op, Lane lane = Lane::compute);
  NodeId emit(Op op, Phase phase, Lane lane = Lane::compute);

  Program& program() { return program_; }
  const Program& program() const { return program_; }
  const Value& operator[](ValueId v) const { return program_.value(v); }
  Program take() { return std::move(program_); }

 private:
  template <class T>
  T make(ValueId id) const {
    T operand{};
    if (id == kNoValue) return operand;
    const Value& v = program_.value(id);
    static_cast<Operand&>(operand) = Operand{id, v.dtype, v.rows, v.cols, v.pitch};
    return operand;
  }
  ValueId add_view(std::string name, ValueId of, std::int64_t offset_bytes, std::int64_t rows,
                   std::int64_t cols, std::int64_t pitch);

  Program program_;
  Tag tag_;
};

/// Timeline of a training step without pipeline: prologue once, then forward and backward of each micro-batch
/// in slot 0, then the epilogue once. Segment names that the program lacks are skipped.
void set_accumulation_timeline(Program& program, int micro_batches);

/// Timeline that runs every segment once, in order.
void set_straight_timeline(Program& program);

}  // namespace titan
