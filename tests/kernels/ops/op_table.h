// The op test table. A row is an operation with small odd cases (tests) and training-like ones (--perf); each
// file *_ops.cc of this folder adds the rows of one family. A case is an op on random operands together with
// its definition as a double-precision loop. `check` runs it and compares:
//   - every written element against the loop, within a tolerance that follows from the dtype;
//   - overwriting and adding, for operands that accumulate;
//   - every mode of the runner (threads, schedules), and every in-place pairing the op allows (ops.h:
//   kShare):
//     bitwise equal;
//   - operands that are only read, row padding and the memory around each operand: untouched;
//   - for a backward, the loop itself against finite differences of the forward's loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/base/function_ref.h"
#include "kernels/op/backend.h"
#include "kernels/op/op.h"

namespace titan::op_test {

/// A dense row-major matrix of doubles: what an operand holds.
struct Matrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(std::int64_t rows_, std::int64_t cols_, double value = 0)
      : rows(rows_), cols(cols_), values(static_cast<std::size_t>(rows_ * cols_), value) {}
  double& operator()(std::int64_t r, std::int64_t c) {
    return values[static_cast<std::size_t>(r * cols + c)];
  }
  double operator()(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * cols + c)];
  }
};

/// What all operands of a case hold, by operand. Operands that are only written, and scratch, start as zeros.
class Contents {
 public:
  Matrix& operator[](const Operand& o) { return matrices_[static_cast<std::size_t>(o.value)]; }
  const Matrix& operator[](const Operand& o) const { return matrices_[static_cast<std::size_t>(o.value)]; }
  ValueId add(Matrix m) {
    matrices_.push_back(std::move(m));
    return static_cast<ValueId>(matrices_.size() - 1);
  }
  std::size_t size() const { return matrices_.size(); }

 private:
  std::vector<Matrix> matrices_;
};

/// x as an element of `dtype` holds it.
double rounded(DType dtype, double x);

/// The forward of a backward op: d objective / d `input` must be what the reference writes to `gradient`.
struct Gradient {
  std::function<double(const Contents&)> objective;
  std::vector<std::pair<Operand, Operand>> input_and_gradient;
};

struct Case {
  Op op;
  Contents contents;
  /// Writes to the contents of every written operand what the op must leave there; for an accumulating
  /// operand what it must *add*.
  std::function<void(Contents&)> reference;
  /// Error of the f32 arithmetic, in units of 2^-24 of the largest element of the operand: about the square
  /// root of the longest sum. The rounding to the operand's dtype comes on top.
  double growth = 16;
  Gradient gradient = {};  ///< of a backward op
  /// Of an op that finds an amax besides: what it is the amax of. It must be that of the bits written there.
  Operand amax_of = {};
  /// Of an op that writes 8-bit rows besides: what they are of. They must be those of the bits written there.
  Operand quantized_of = {};
  /// Where bf16 is multiplied (Runner::multiplies_bf16): error of an intermediate that is rounded to it,
  /// relative to the largest element of the operand.
  double bf16_error = 0;
  /// The op rounds once: its results are the reference's, rounded to their dtypes.
  bool exact = false;
  /// Bytes by which every operand starts after a multiple of 64, itself a multiple of the element sizes.
  std::int64_t shift = 0;
};

/// Makes the operands of one case.
class CaseBuilder {
 public:
  /// `padding`: elements between the end of a row and the start of the next one.
  explicit CaseBuilder(unsigned seed, std::int64_t padding = 0) : random_(seed), padding_(padding) {}

  Matrix normal(std::int64_t rows, std::int64_t cols, double std = 1, double mean = 0);
  Matrix integers(std::int64_t rows, std::int64_t cols, std::int64_t low, std::int64_t high);  ///< inclusive

  /// An operand that holds `m`, rounded to `dtype`.
  template <class Kind>
  Kind given(DType dtype, Matrix m) {
    return place(Kind{}, dtype, std::move(m));
  }
  /// An operand that is only written, or scratch.
  template <class Kind>
  Kind blank(DType dtype, std::int64_t rows, std::int64_t cols) {
    return place(Kind{}, dtype, Matrix(rows, cols));
  }

  template <class T>
  Case finish(const T& op, std::function<void(Contents&)> reference, Gradient gradient = {}) {
    return {op, std::move(contents_), std::move(reference), 16, std::move(gradient)};
  }

 private:
  template <class Kind>
  Kind place(Kind operand, DType dtype, Matrix m) {
    static_cast<Operand&>(operand) = add(dtype, std::move(m));
    return operand;
  }
  Operand add(DType dtype, Matrix m);

  std::mt19937 random_;
  std::int64_t padding_;
  Contents contents_;
};

using Emit = FunctionRef<void(const Case&)>;

struct Row {
  std::string name;
  void (*tests)(Emit emit);  ///< small cases, odd sizes
  void (*bench)(Emit emit);  ///< training-like shapes for --perf; may be null
};

/// All rows, in no particular order.
std::vector<Row>& table();

/// At namespace scope in a *_ops.cc: const AddRow row{"rms_norm", tests, bench};
struct AddRow {
  AddRow(std::string name, void (*tests)(Emit), void (*bench)(Emit) = nullptr) {
    table().push_back({std::move(name), tests, bench});
  }
};

/// What the table runs on: an instruction set of the CPU, or the kernels of the CUDA backend. All its modes
/// must give the same bits.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual std::string name() const = 0;
  virtual std::vector<std::string> modes() const = 0;
  /// Whether products of bf16 numbers round intermediates to bf16 (attention's probabilities).
  virtual bool multiplies_bf16() const = 0;
  /// False while it lacks the op.
  virtual bool runs(const Op&) const { return true; }
  /// Returns when all is done.
  virtual void run(const Op& op, const Binding& binding, int mode) = 0;

  /// Memory of the runner, at least 64-byte aligned.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void free(std::byte* p) = 0;
  virtual void upload(const std::byte* from, std::byte* to, std::size_t bytes) = 0;
  virtual void download(const std::byte* from, std::byte* to, std::size_t bytes) = 0;
};

/// All that this executable tests.
const std::vector<std::unique_ptr<Runner>>& runners();

/// The memory of one case's operands, each surrounded by guard bytes: a runner's, and the host's image of it.
class Memory {
 public:
  Memory(const Case& c, Runner& runner);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  /// Writes the initial contents; operands that are only written, and accumulating ones when `overwrite`, are
  /// filled with NaN.
  void reset(const Case& c, bool overwrite);
  /// Gives `operand` the memory of `other` from now on.
  void alias(const Operand& operand, const Operand& other);
  /// Runs the op; afterwards the image holds what it left.
  void run(const Case& c, int mode, bool overwrite);
  /// The same without looking at the results.
  void run_only(const Case& c, int mode, bool overwrite);

  double element(const Operand& operand, std::int64_t row, std::int64_t col) const;
  std::vector<std::byte> bytes(const Operand& operand) const;  ///< of the elements, rows packed
  /// Whether all bytes outside the elements still hold the pattern they were given.
  bool guards_intact(const Operand& operand) const;

 private:
  const std::byte* image(const Operand& operand) const;

  Runner& runner_;
  std::int64_t margin_;                         ///< bytes before each operand
  std::vector<std::vector<std::byte>> images_;  ///< by ValueId
  std::vector<int> image_of_;                   ///< by ValueId: which image, after alias()
  std::vector<std::byte*> blocks_, addresses_;  ///< by ValueId: the runner's; and its first element
};

/// "rms_norm x bf16[7,33:36] ...", with pitches where they differ.
std::string describe(const Op& op);
/// Reports through Catch2.
void check(const Case& c);
/// Times every bench case and prints a table. Rows whose name does not contain `filter` are left out. Each
/// executable has its own.
void run_perf(std::string_view filter);
/// The shortest of several runs, in seconds.
double best_time(FunctionRef<void()> f);

}  // namespace titan::op_test
