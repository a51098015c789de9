// The op test table. A row is an operation with small odd cases (tests) and training-like ones (--perf); each
// file *_ops.cc of this folder adds the rows of one family. A case is an op on random operands together with
// its definition as a double-precision loop. `check` runs it and compares:
//   - every written element against the loop, within a tolerance that follows from the dtype;
//   - overwriting and adding, for operands that accumulate;
//   - 1, 2 and 3 threads, and every in-place pairing the op allows (ops.h: kShare): bitwise equal;
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
#include "kernels/cpu/base/context.h"
#include "kernels/cpu/base/run.h"
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
  std::function<void(const cpu::Context&)> run;
  Contents contents;
  /// Writes to the contents of every written operand what the op must leave there; for an accumulating
  /// operand what it must *add*.
  std::function<void(Contents&)> reference;
  /// Error of the f32 arithmetic, in units of 2^-24 of the largest element of the operand: about the square
  /// root of the longest sum. The rounding to the operand's dtype comes on top.
  double growth = 16;
  Gradient gradient = {};  ///< of a backward op
  /// On machines that multiply bf16: error of an intermediate that is rounded to it, relative to the largest
  /// element of the operand.
  double bf16_error = 0;
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
    return {op,
            [op](const cpu::Context& context) { cpu::run(op, context); },
            std::move(contents_),
            std::move(reference),
            16,
            std::move(gradient)};
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

/// The memory of one case's operands, each surrounded by guard bytes.
class Memory {
 public:
  explicit Memory(const Case& c);
  ~Memory();
  /// Writes the initial contents; operands that are only written, and accumulating ones when `overwrite`, are
  /// filled with NaN.
  void reset(const Case& c, bool overwrite);
  /// Gives `operand` the memory of `other` from now on.
  void alias(const Operand& operand, const Operand& other);
  void run(const Case& c, int threads, cpu::Isa isa, bool overwrite);

  double element(const Operand& operand, std::int64_t row, std::int64_t col) const;
  std::vector<std::byte> bytes(const Operand& operand) const;  ///< of the elements, rows packed
  /// Whether all bytes outside the elements still hold the pattern they were given.
  bool guards_intact(const Operand& operand) const;

 private:
  std::vector<std::vector<std::byte>> storage_;  ///< by ValueId
  std::vector<std::byte*> addresses_;
  std::unique_ptr<cpu::GemmEngine> gemm_;  ///< of the last instruction set
  cpu::Isa gemm_isa_{};
};

/// Which instruction sets this executable tests.
std::vector<cpu::Isa> isas();

/// "rms_norm x bf16[7,33:36] ...", with pitches where they differ.
std::string describe(const Op& op);
/// Reports through Catch2.
void check(const Case& c);
/// Times every bench case and prints a table. Rows whose name does not contain `filter` are left out.
void run_perf(std::string_view filter);

}  // namespace titan::op_test
