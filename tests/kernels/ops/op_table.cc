#include "tests/kernels/ops/op_table.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "kernels/base/bf16.h"
#include "kernels/base/error.h"
#include "kernels/base/float8.h"

namespace titan::op_test {
namespace {

constexpr std::int64_t kGuard = 64;  // bytes before and after each operand
constexpr std::byte kPattern{0xa5}, kNan{0xff};

std::int64_t extent(const Operand& o) {
  return o.rows == 0 ? 0 : ((o.rows - 1) * o.pitch + o.cols) * size_of(o.dtype);
}

void store(DType dtype, double value, std::byte* to) {
  const auto put = [to](auto x) { std::memcpy(to, &x, sizeof x); };
  switch (dtype) {
    case DType::f32:
      return put(static_cast<float>(value));
    case DType::bf16:
      return put(to_bf16(static_cast<float>(value)).bits);
    case DType::i32:
      return put(static_cast<std::int32_t>(value));
    case DType::i64:
      return put(static_cast<std::int64_t>(value));
    case DType::f8e4m3:
      return put(to_f8e4m3(static_cast<float>(value)).bits);
    case DType::f8e5m2:
      return put(to_f8e5m2(static_cast<float>(value)).bits);
  }
}

template <class T>
T get(const std::byte* from) {
  T x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

double load(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::f32:
      return get<float>(from);
    case DType::bf16:
      return to_float(get<bf16>(from));
    case DType::i32:
      return get<std::int32_t>(from);
    case DType::i64:
      return static_cast<double>(get<std::int64_t>(from));
    case DType::f8e4m3:
      return to_float(get<f8e4m3>(from));
    case DType::f8e5m2:
      return to_float(get<f8e5m2>(from));
  }
  return 0;
}

/// Bit i: the i-th present operand accumulates.
std::uint32_t accumulating(const Op& op) {
  std::uint32_t bits = 0, next = 1;
  for_each_operand(op, [&](const Operand&, Access access, std::string_view) {
    if (access == Access::accumulate) bits |= next;
    next <<= 1;
  });
  return bits;
}

}  // namespace

double rounded(DType dtype, double x) {
  std::byte bytes[8];
  store(dtype, x, bytes);
  return load(dtype, bytes);
}

Matrix CaseBuilder::normal(std::int64_t rows, std::int64_t cols, double std, double mean) {
  Matrix m(rows, cols);
  std::normal_distribution<double> draw(mean, std);
  for (double& x : m.values) x = draw(random_);
  return m;
}

Matrix CaseBuilder::integers(std::int64_t rows, std::int64_t cols, std::int64_t low, std::int64_t high) {
  Matrix m(rows, cols);
  std::uniform_int_distribution<std::int64_t> draw(low, high);
  for (double& x : m.values) x = static_cast<double>(draw(random_));
  return m;
}

Operand CaseBuilder::add(DType dtype, Matrix m) {
  Operand o;
  o.dtype = dtype;
  o.rows = m.rows;
  o.cols = m.cols;
  o.pitch = m.cols + (m.rows > 1 && m.cols > 1 ? padding_ : 0);
  for (double& x : m.values) x = rounded(dtype, x);
  o.value = contents_.add(std::move(m));
  return o;
}

std::vector<Row>& table() {
  static std::vector<Row> rows;
  return rows;
}

Memory::Memory(const Case& c, Runner& runner)
    : runner_(runner),
      margin_(kGuard + c.shift),
      images_(c.contents.size()),
      image_of_(c.contents.size()),
      blocks_(c.contents.size()),
      addresses_(c.contents.size()) {
  for_each_operand(c.op, [&](const Operand& o, Access, std::string_view) {
    const auto i = static_cast<std::size_t>(o.value);
    if (blocks_[i] != nullptr) return;
    images_[i].resize(static_cast<std::size_t>(margin_ + extent(o) + kGuard));
    image_of_[i] = o.value;
    blocks_[i] = runner_.allocate(images_[i].size());
    addresses_[i] = blocks_[i] + margin_;
  });
}

Memory::~Memory() {
  for (std::byte* const block : blocks_)
    if (block != nullptr) runner_.free(block);
}

const std::byte* Memory::image(const Operand& o) const {
  return images_[static_cast<std::size_t>(image_of_[static_cast<std::size_t>(o.value)])].data() + margin_;
}

void Memory::reset(const Case& c, bool overwrite) {
  for (auto& image : images_) std::fill(image.begin(), image.end(), kPattern);
  // Read operands last: where one shares memory with a written operand, its contents count.
  for (const bool read_pass : {false, true})
    for_each_operand(c.op, [&](const Operand& o, Access access, std::string_view) {
      const bool holds_values = reads(access) && !(access == Access::accumulate && overwrite);
      if (holds_values != read_pass) return;
      const Matrix& m = c.contents[o];
      auto* const base = const_cast<std::byte*>(image(o));
      const std::int64_t size = size_of(o.dtype);
      for (std::int64_t r = 0; r < o.rows; ++r) {
        if (!holds_values)
          std::fill_n(base + r * o.pitch * size, o.cols * size, kNan);
        else
          for (std::int64_t col = 0; col < o.cols; ++col)
            store(o.dtype, m(r, col), base + (r * o.pitch + col) * size);
      }
    });
  for (std::size_t i = 0; i < images_.size(); ++i)
    if (blocks_[i] != nullptr) runner_.upload(images_[i].data(), blocks_[i], images_[i].size());
}

void Memory::alias(const Operand& operand, const Operand& other) {
  const auto i = static_cast<std::size_t>(operand.value);
  addresses_[i] = addresses_[static_cast<std::size_t>(other.value)];
  image_of_[i] = other.value;
}

void Memory::run_only(const Case& c, int mode, bool overwrite) {
  runner_.run(c.op, {addresses_.data(), overwrite ? accumulating(c.op) : 0}, mode);
}

void Memory::run(const Case& c, int mode, bool overwrite) {
  run_only(c, mode, overwrite);
  for (std::size_t i = 0; i < images_.size(); ++i)
    if (blocks_[i] != nullptr) runner_.download(blocks_[i], images_[i].data(), images_[i].size());
}

double Memory::element(const Operand& o, std::int64_t row, std::int64_t col) const {
  return load(o.dtype, image(o) + (row * o.pitch + col) * size_of(o.dtype));
}

std::vector<std::byte> Memory::bytes(const Operand& o) const {
  std::vector<std::byte> packed;
  for (std::int64_t r = 0; r < o.rows; ++r) {
    const std::byte* row = image(o) + r * o.pitch * size_of(o.dtype);
    packed.insert(packed.end(), row, row + o.cols * size_of(o.dtype));
  }
  return packed;
}

bool Memory::guards_intact(const Operand& o) const {
  const auto is_pattern = [](std::byte b) { return b == kPattern; };
  const std::byte* base = image(o);
  const std::int64_t size = size_of(o.dtype), end = extent(o);
  bool intact = std::all_of(base - margin_, base, is_pattern) &&
                std::all_of(base + end, base + end + kGuard, is_pattern);
  for (std::int64_t r = 0; r + 1 < o.rows; ++r)
    intact = intact &&
             std::all_of(base + (r * o.pitch + o.cols) * size, base + (r + 1) * o.pitch * size, is_pattern);
  return intact;
}

double best_time(FunctionRef<void()> f) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9, total = 0;
  for (int i = 0; i < 3 || (total < 0.5 && i < 50); ++i) {
    const auto start = Clock::now();
    f();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

std::string describe(const Op& op) {
  std::string text(name_of(op));
  for_each_operand(op, [&](const Operand& o, Access, std::string_view name) {
    text += fmt::format(" {} {}[{},{}", name, to_string(o.dtype), o.rows, o.cols);
    text += o.pitch == o.cols ? "]" : fmt::format(":{}]", o.pitch);
  });
  const std::string fields = attributes(op);
  return fields.empty() ? text : text + " " + fields;
}

}  // namespace titan::op_test
