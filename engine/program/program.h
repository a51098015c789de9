// The step program: the explicit list of everything one rank does in one step, over named, typed, sized
// values.
//
// A program is a few straight-line *segments* and a *timeline* that says in which order they run, for which
// micro-batch and in which slot. Its meaning is the unrolled list of nodes, in order; lanes may run ahead of
// each other only where def-use and `after` edges allow it (order.h). Addresses depend on (value, slot),
// never on the micro-batch, except for inputs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/op/backend.h"
#include "kernels/op/op.h"

namespace titan {

/// What a value is for; memory reports add up by role.
enum class Role : std::uint8_t {
  parameter,        ///< f32 master weights
  optimizer_state,  ///< moments
  gradient,         ///< f32, from its first write to the optimizer
  weight,           ///< a parameter as the kernels use it: cast or gathered, rebuilt, never saved
  activation,
  scratch,
  input,     ///< written by the host before the step
  output,    ///< read by the host after the step
  constant,  ///< derived once: RoPE table, cache positions
  cache,     ///< keys and values of generation
  staging,   ///< a copy of the state, for a save in the background
};
inline constexpr int kRoles = 11;
const char* to_string(Role role);

/// How many instances of a value exist, and how long each lives.
enum class Lifetime : std::uint8_t {
  persistent,   ///< one, across steps; shared by name between the programs of a job
  step,         ///< one per step
  micro_batch,  ///< one per micro-batch: inputs
  slot,         ///< one per slot: what a micro-batch in flight needs
};
const char* to_string(Lifetime lifetime);

/// In-order queues. Lane 0 computes; the others move data beside it.
enum class Lane : std::uint8_t {
  compute,
  fsdp,
  tp,
  pp_forward,
  pp_backward,
  offload,  ///< device → host: gradients, and the state for a save
  fetch,    ///< host → device: weights
  spill,    ///< device → host: activations
  reload,   ///< host → device: activations
  host,     ///< the CPU computes, over host memory, also where the device is a GPU
};
inline constexpr int kLanes = 10;
const char* to_string(Lane lane);

/// A row-major matrix [rows, cols] of `dtype`. A base owns its bytes and has pitch == cols; a view is a
/// rectangle in a base: it starts `offset` bytes after the base's start, its rows are `pitch` elements apart.
/// A view's base is never a view.
struct Value {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0, pitch = 0;
  Role role = Role::activation;
  Lifetime lifetime = Lifetime::slot;
  Space space = Space::device;
  ValueId base = kNoValue;
  std::int64_t offset = 0;

  bool is_view() const { return base != kNoValue; }
  std::int64_t bytes() const { return rows * cols * size_of(dtype); }
};

enum class Phase : std::uint8_t {
  setup,
  gather,
  forward,
  recompute,
  loss,
  input_grad,
  weight_grad,
  reduce,
  optimizer,
  stage,
  offload
};
const char* to_string(Phase phase);

/// For printing and profiling, and for passes that work layer by layer. Layer −1: outside the blocks.
struct Tag {
  int layer = -1;
  Phase phase = Phase::forward;
};

using NodeId = std::int32_t;

struct Node {
  Op op;
  Lane lane = Lane::compute;
  Tag tag;
  NodeId id = -1;             ///< stable: passes may move nodes
  std::vector<NodeId> after;  ///< earlier nodes of the same segment that must have finished
};

struct Segment {
  std::string name;
  std::vector<Node> nodes;
};

/// Which of the accumulated micro-batches a run of a segment is; with one micro-batch it is both first and
/// last.
struct Variant {
  bool first = true, last = true;
  bool operator==(const Variant&) const = default;
};

struct TimelineStep {
  int segment = 0;
  Variant variant;
  int micro_batch = 0;
  int slot = 0;
};

/// A trainable tensor, or this rank's box of it: which values of the program hold it. Named as Hugging Face
/// names it.
struct Parameter {
  std::string name;
  std::int64_t global_rows = 0, global_cols = 0;  ///< of the whole tensor
  std::int64_t first_row = 0, first_col = 0;      ///< where this rank's box starts
  int layer = -1;                                 ///< −1: outside the blocks
  bool one_dimensional = false;                   ///< a [1, D] here that files store as [D]
  ValueId weight = kNoValue;                      ///< as kernels read it
  ValueId gradient = kNoValue;                    ///< f32; none in programs that do not train
  // Set by shard_parameters: views of the bucket that stores it.
  ValueId master = kNoValue, exp_avg = kNoValue, exp_avg_sq = kNoValue;
};

/// Flat storage of several parameters: one layout for master weights, moments, gradients and gathered
/// weights.
struct Bucket {
  /// Elements [begin, begin + count) get the same weight decay.
  struct Run {
    std::int64_t begin, count;
    bool decay;
  };
  std::string name;
  std::int64_t elements = 0;
  ValueId master = kNoValue, gradient = kNoValue, exp_avg = kNoValue,
          exp_avg_sq = kNoValue;  ///< bases [1, elements]
  std::vector<Run> runs = {};     ///< of parameters, in order
  std::vector<Run> padding = {};  ///< between them
};

struct Program {
  std::string name;
  std::vector<Value> values;
  std::vector<Segment> segments;
  std::vector<TimelineStep> timeline;
  int micro_batches = 1;
  int slots = 1;
  NodeId next_node = 0;
  std::vector<Parameter> parameters;
  std::vector<Bucket> buckets;

  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
  Value& value(ValueId id) { return values[static_cast<std::size_t>(id)]; }
  /// The value that owns the bytes.
  ValueId base_of(ValueId id) const { return value(id).is_view() ? value(id).base : id; }
  /// kNoValue when there is none. Linear: for tests, tools and set-up.
  ValueId find(std::string_view name) const;
  /// Throws InternalError when there is none.
  ValueId at(std::string_view name) const;
  Segment& segment(std::string_view name) &;
  const Segment& segment(std::string_view name) const&;
  const Segment& segment(std::string_view name) const&& = delete;  // it would not outlive its program
  int segment_index(std::string_view name) const;
};

/// Which instance of a value a timeline step uses, and how many there are.
int instance_of(const Value& value, const TimelineStep& step);
int instance_count(const Value& value, const Program& program);

/// The rectangle of bytes a value covers in its base.
struct ByteRect {
  std::int64_t offset, rows, row_bytes, pitch_bytes;
  std::int64_t bytes() const { return rows * row_bytes; }
};
ByteRect rect_of(const Value& value);

/// Bytes that two rectangles of one base have in common: exact for row blocks and column blocks of one
/// matrix; otherwise the overlap of their byte ranges, which errs towards overlap.
std::int64_t overlap_bytes(const ByteRect& a, const ByteRect& b);

}  // namespace titan
