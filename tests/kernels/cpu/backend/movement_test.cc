// Cast, Copy, Add, Fill, Iota over odd shapes, pitches, dtypes and instruction sets.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "kernels/base/bf16.h"
#include "kernels/cpu/base/run.h"
#include "kernels/cpu/base/team.h"

namespace titan::cpu {
namespace {

/// Values at odd pitches, 7 elements between rows that nothing may touch.
class Values {
 public:
  template <class OperandType>
  OperandType make(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t padding) {
    OperandType o;
    static_cast<Operand&>(o) = {static_cast<ValueId>(memory_.size()), dtype, rows, cols, cols + padding};
    memory_.emplace_back(rows * o.pitch * size_of(dtype) + 1, std::byte{0x5a});
    addresses_.push_back(memory_.back().data());
    return o;
  }
  float get(const Operand& x, std::int64_t r, std::int64_t c) const {
    const std::byte* p = memory_[x.value].data() + (r * x.pitch + c) * size_of(x.dtype);
    return x.dtype == DType::bf16 ? to_float(*reinterpret_cast<const bf16*>(p))
                                  : *reinterpret_cast<const float*>(p);
  }
  void set(const Operand& x, float first, float step) {
    for (std::int64_t r = 0; r < x.rows; ++r)
      for (std::int64_t c = 0; c < x.cols; ++c) {
        const float value = first + step * static_cast<float>(r * x.cols + c);
        std::byte* p = memory_[x.value].data() + (r * x.pitch + c) * size_of(x.dtype);
        if (x.dtype == DType::bf16)
          *reinterpret_cast<bf16*>(p) = to_bf16(value);
        else
          *reinterpret_cast<float*>(p) = value;
      }
  }
  bool gaps_intact(const Operand& x) const {
    for (std::int64_t r = 0; r < x.rows; ++r)
      for (std::int64_t i = (r * x.pitch + x.cols) * size_of(x.dtype);
           i < (r + 1) * x.pitch * size_of(x.dtype); ++i)
        if (memory_[x.value][i] != std::byte{0x5a}) return false;
    return true;
  }
  template <class OpType>
  void execute(const OpType& op, Isa isa, int lane = 0) {
    const Binding binding{.addresses = addresses_.data()};
    const Team team(2);
    run(op, Context{.binding = binding, .team = team, .isa = isa, .lane = lane});
  }
  const std::byte* bytes(const Operand& x) const { return memory_[x.value].data(); }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::byte*> addresses_;
};

constexpr DType kFloats[] = {DType::f32, DType::bf16};
constexpr std::int64_t kShapes[][3] = {{1, 1, 0},     {3, 5, 7},     {4, 33, 0},
                                       {257, 130, 7}, {1, 40001, 0}, {0, 4, 0}};

template <class F>
void for_each_case(F f) {
  for (const Isa isa : kAllIsas)
    for (const auto& [rows, cols, padding] : kShapes)
      if (isa <= best_isa()) f(isa, rows, cols, padding);
}

float rounded(float x, DType dtype) { return dtype == DType::bf16 ? to_float(to_bf16(x)) : x; }

TEST_CASE("cast rounds once to nearest even") {
  for_each_case([](Isa isa, std::int64_t rows, std::int64_t cols, std::int64_t padding) {
    for (const DType from : kFloats)
      for (const DType to : kFloats) {
        Values v;
        const auto x = v.make<In>(from, rows, cols, padding);
        const auto y = v.make<Out>(to, rows, cols, 0);
        v.set(x, -3.1f, 0.0137f);
        v.execute(Cast{.x = x, .y = y}, isa);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < cols; ++c) REQUIRE(v.get(y, r, c) == rounded(v.get(x, r, c), to));
      }
  });
}

TEST_CASE("add in f32, rounded once, also in place and of mixed dtypes") {
  for_each_case([](Isa isa, std::int64_t rows, std::int64_t cols, std::int64_t padding) {
    for (const DType a_dtype : kFloats)
      for (const DType b_dtype : kFloats) {
        Values v;
        const auto a = v.make<In>(a_dtype, rows, cols, padding);
        const auto b = v.make<In>(b_dtype, rows, cols, padding);
        v.set(a, 1.7f, 0.013f);
        v.set(b, -0.3f, 0.0071f);
        const Values before = v;
        v.execute(Add{.a = a, .b = b, .y = {b}}, isa);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < cols; ++c)
            REQUIRE(v.get(b, r, c) == rounded(before.get(a, r, c) + before.get(b, r, c), b_dtype));
        CHECK(v.gaps_intact(b));
      }
  });
}

TEST_CASE("copy moves rows of any dtype and leaves the gaps") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i32, DType::i64})
    for_each_case([&](Isa isa, std::int64_t rows, std::int64_t cols, std::int64_t padding) {
      Values v;
      const auto x = v.make<In>(dtype, rows, cols, 3);
      const auto y = v.make<Out>(dtype, rows, cols, padding);
      std::byte* from = const_cast<std::byte*>(v.bytes(x));
      for (std::int64_t i = 0; i < rows * x.pitch * size_of(dtype); ++i)
        from[i] = static_cast<std::byte>(i * 31);
      v.execute(Copy{.x = x, .y = y}, isa);
      for (std::int64_t r = 0; r < rows; ++r)
        REQUIRE(std::memcmp(v.bytes(x) + r * x.pitch * size_of(dtype),
                            v.bytes(y) + r * y.pitch * size_of(dtype), cols * size_of(dtype)) == 0);
      CHECK(v.gaps_intact(y));
    });
}

TEST_CASE("large copies beside the compute lane move every byte, whatever the alignment") {
  const std::int64_t size = GENERATE((1 << 20) - 1, 1 << 20, (1 << 20) + 77);
  constexpr std::int64_t kMargin = 100;
  for (const std::int64_t to : {0, 1, 63}) {
    std::vector<std::uint8_t> x(size + kMargin), y(size + 2 * kMargin, 0x5a);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint8_t>(i * 31 + i / 251);
    std::byte* addresses[] = {reinterpret_cast<std::byte*>(x.data() + 5),
                              reinterpret_cast<std::byte*>(y.data() + to)};
    const Binding binding{.addresses = addresses};
    const Team team(1);
    const std::int64_t n = size / 2;
    run(Copy{.x = {{0, DType::bf16, 1, n, n}}, .y = {{1, DType::bf16, 1, n, n}}},
        Context{.binding = binding, .team = team, .isa = best_isa(), .lane = 5});
    CHECK(std::memcmp(y.data() + to, x.data() + 5, static_cast<std::size_t>(n * 2)) == 0);
    CHECK(std::count(y.begin(), y.begin() + to, 0x5a) == to);
    CHECK(y[static_cast<std::size_t>(to + n * 2)] == 0x5a);
  }
}

TEST_CASE("fill and iota") {
  Values v;
  const auto f = v.make<Out>(DType::f32, 3, 5, 7), h = v.make<Out>(DType::bf16, 3, 5, 7);
  const auto i = v.make<Out>(DType::i32, 7, 1, 0), j = v.make<Out>(DType::i32, 7, 1, 2);
  v.execute(Fill{.y = f, .value = 1.5f}, best_isa());
  v.execute(Fill{.y = h, .value = -2}, best_isa());
  v.execute(Iota{.y = i, .period = 3}, best_isa());
  v.execute(Iota{.y = j, .period = 0}, best_isa());
  CHECK(v.get(f, 2, 4) == 1.5f);
  CHECK(v.get(h, 2, 4) == -2);
  CHECK((v.gaps_intact(f) && v.gaps_intact(h) && v.gaps_intact(j)));
  for (int r = 0; r < 7; ++r) {
    CHECK(reinterpret_cast<const std::int32_t*>(v.bytes(i))[r] == r % 3);
    CHECK(reinterpret_cast<const std::int32_t*>(v.bytes(j))[r * 3] == r);
  }
  v.execute(Fill{.y = i, .value = -100}, best_isa());
  CHECK(*reinterpret_cast<const std::int32_t*>(v.bytes(i)) == -100);
}

}  // namespace
}  // namespace titan::cpu
