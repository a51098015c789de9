#include "engine/program/program.h"

#include <algorithm>

#include "kernels/base/error.h"

namespace titan {

const char* to_string(Role role) {
  constexpr const char* kNames[kRoles] = {"parameter",  "optimizer_state", "gradient", "weight",
                                          "activation", "scratch",         "input",    "output",
                                          "constant",   "cache",           "staging"};
  return kNames[static_cast<int>(role)];
}

const char* to_string(Lifetime lifetime) {
  constexpr const char* kNames[] = {"persistent", "step", "micro_batch", "slot"};
  return kNames[static_cast<int>(lifetime)];
}

const char* to_string(Lane lane) {
  constexpr const char* kNames[kLanes] = {"compute", "fsdp",  "tp",    "pp_forward", "pp_backward",
                                          "offload", "fetch", "spill", "reload",     "host"};
  return kNames[static_cast<int>(lane)];
}

const char* to_string(Phase phase) {
  constexpr const char* kNames[] = {"setup",       "gather", "forward",   "recompute", "loss",   "input_grad",
                                    "weight_grad", "reduce", "optimizer", "stage",     "offload"};
  return kNames[static_cast<int>(phase)];
}

ValueId Program::find(std::string_view wanted) const {
  const auto it =
      std::find_if(values.begin(), values.end(), [&](const Value& v) { return v.name == wanted; });
  return it == values.end() ? kNoValue : static_cast<ValueId>(it - values.begin());
}

ValueId Program::at(std::string_view wanted) const {
  const ValueId id = find(wanted);
  TITAN_CHECK(id != kNoValue, "program {} has no value '{}'", name, wanted);
  return id;
}

int Program::segment_index(std::string_view wanted) const {
  const auto it =
      std::find_if(segments.begin(), segments.end(), [&](const Segment& s) { return s.name == wanted; });
  TITAN_CHECK(it != segments.end(), "program {} has no segment '{}'", name, wanted);
  return static_cast<int>(it - segments.begin());
}

Segment& Program::segment(std::string_view wanted) & {
  return segments[static_cast<std::size_t>(segment_index(wanted))];
}
const Segment& Program::segment(std::string_view wanted) const& {
  return segments[static_cast<std::size_t>(segment_index(wanted))];
}

int instance_of(const Value& value, const TimelineStep& step) {
  switch (value.lifetime) {
    case Lifetime::micro_batch:
      return step.micro_batch;
    case Lifetime::slot:
      return step.slot;
    case Lifetime::persistent:
    case Lifetime::step:
      return 0;
  }
  return 0;
}

int instance_count(const Value& value, const Program& program) {
  switch (value.lifetime) {
    case Lifetime::micro_batch:
      return program.micro_batches;
    case Lifetime::slot:
      return program.slots;
    case Lifetime::persistent:
    case Lifetime::step:
      return 1;
  }
  return 1;
}

ByteRect rect_of(const Value& value) {
  const std::int64_t size = size_of(value.dtype);
  if (value.pitch == value.cols || value.rows <= 1)
    return {value.offset, 1, value.rows * value.cols * size, value.rows * value.cols * size};
  return {value.offset, value.rows, value.cols * size, value.pitch * size};
}

namespace {

std::int64_t interval_overlap(std::int64_t a0, std::int64_t a1, std::int64_t b0, std::int64_t b1) {
  return std::max<std::int64_t>(0, std::min(a1, b1) - std::max(a0, b0));
}

/// `r` as rows of `pitch` bytes, when its edges allow it: {first row, rows, first byte in row, bytes in row}.
struct Block {
  bool exact;
  std::int64_t row, rows, column, columns;
};

Block as_block(const ByteRect& r, std::int64_t pitch) {
  const std::int64_t row = r.offset / pitch, column = r.offset % pitch;
  if (r.rows > 1)
    return {r.pitch_bytes == pitch && column + r.row_bytes <= pitch, row, r.rows, column, r.row_bytes};
  if (column + r.row_bytes <= pitch) return {true, row, 1, column, r.row_bytes};
  return {column == 0 && r.row_bytes % pitch == 0, row, r.row_bytes / pitch, 0, pitch};
}

std::int64_t end_of(const ByteRect& r) { return r.offset + (r.rows - 1) * r.pitch_bytes + r.row_bytes; }

}  // namespace

std::int64_t overlap_bytes(const ByteRect& a, const ByteRect& b) {
  const std::int64_t range = interval_overlap(a.offset, end_of(a), b.offset, end_of(b));
  if (range == 0 || (a.rows == 1 && b.rows == 1)) return range;
  const std::int64_t pitch = a.rows > 1 ? a.pitch_bytes : b.pitch_bytes;
  const Block x = as_block(a, pitch), y = as_block(b, pitch);
  if (!x.exact || !y.exact) return range;
  return interval_overlap(x.row, x.row + x.rows, y.row, y.row + y.rows) *
         interval_overlap(x.column, x.column + x.columns, y.column, y.column + y.columns);
}

}  // namespace titan
