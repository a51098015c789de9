// What the collectives of a rank that is not alone ask of their communicator.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/cuda/base/run.h"
#include "kernels/op/communicator.h"

namespace titan::cuda {
namespace {

/// Rank 1 of 3: notes its calls.
class NotingCommunicator final : public Communicator {
 public:
  int rank() const override { return 1; }
  int size() const override { return 3; }
  void all_gather(const void* shard, void* full, std::int64_t bytes, void* stream) override {
    note(fmt::format("all_gather {}", bytes), {shard, full}, stream);
  }
  void reduce_scatter(const void* full, DType full_dtype, void* shard, DType shard_dtype, std::int64_t count,
                      bool add, void* stream) override {
    note(fmt::format("reduce_scatter {} {} {}{}", to_string(full_dtype), to_string(shard_dtype), count,
                     add ? " add" : ""),
         {full, shard}, stream);
  }
  void all_reduce(const void* x, void* y, DType dtype, std::int64_t count, Reduction reduction,
                  void* stream) override {
    note(fmt::format("all_reduce {} {} {}", to_string(dtype), count, to_string(reduction)), {x, y}, stream);
  }
  void exchange(std::span<const SendBuffer> sends, std::span<const RecvBuffer> recvs, void* stream) override {
    std::string text = "exchange";
    std::vector<const void*> pointers;
    for (const SendBuffer& s : sends)
      text += fmt::format(" {}>{}", s.bytes, s.peer), pointers.push_back(s.data);
    for (const RecvBuffer& r : recvs)
      text += fmt::format(" {}<{}", r.bytes, r.peer), pointers.push_back(r.data);
    note(text, pointers, stream);
  }
  void abort() noexcept override {}

  std::string text;
  std::vector<const void*> pointers;
  void* stream = nullptr;

 private:
  void note(std::string call, std::vector<const void*> with, void* in) {
    text = std::move(call), pointers = std::move(with), stream = in;
  }
};

class NotingSet final : public CommunicatorSet {
 public:
  Communicator& get(Axis axis, int lane) override {
    CHECK(axis == Axis::tp);
    CHECK(lane == 2);
    return communicator;
  }
  void abort_all() noexcept override {}
  NotingCommunicator communicator;
};

template <class OperandType>
OperandType matrix(ValueId value, DType dtype, std::int64_t rows, std::int64_t cols) {
  OperandType o;
  static_cast<Operand&>(o) = {value, dtype, rows, cols, cols};
  return o;
}

class CollectivesTest {
 public:
  template <class OpType>
  std::string call(const OpType& op, std::uint32_t overwrite = 0) {
    std::byte* const addresses[] = {memory_, memory_ + 64};
    const Binding binding{addresses, overwrite};
    run(op, Context{.binding = binding, .stream = stream(), .device = {}, .communicators = &set_, .lane = 2});
    CHECK(set_.communicator.stream == stream());
    CHECK((set_.communicator.pointers == std::vector<const void*>{memory_, memory_ + 64}));
    return set_.communicator.text;
  }

 private:
  cudaStream_t stream() { return reinterpret_cast<cudaStream_t>(memory_ + 100); }  // only handed on

  alignas(64) std::byte memory_[128];
  NotingSet set_;
};

TEST_CASE_METHOD(CollectivesTest, "collectives hand sizes, dtypes and the stream to the communicator") {
  CHECK(call(AllGather{.shard = matrix<In>(0, DType::bf16, 2, 3),
                       .full = matrix<Out>(1, DType::bf16, 6, 3),
                       .axis = Axis::tp}) == "all_gather 12");
  CHECK(call(AllReduce{.x = matrix<In>(0, DType::f32, 2, 3),
                       .y = matrix<Out>(1, DType::f32, 2, 3),
                       .axis = Axis::tp,
                       .reduction = Reduction::max}) == "all_reduce f32 6 max");
  CHECK(call(Exchange{.sends = {matrix<In>(0, DType::f32, 2, 3)},
                      .recvs = {matrix<Out>(1, DType::bf16, 4, 3)},
                      .send_peers = {2},
                      .recv_peers = {0},
                      .axis = Axis::tp}) == "exchange 24>2 24<0");
}

TEST_CASE_METHOD(CollectivesTest, "a scattered sum adds where its operand accumulates") {
  ReduceScatter op{.full = matrix<In>(0, DType::bf16, 6, 3),
                   .shard = matrix<Result>(1, DType::f32, 2, 3),
                   .axis = Axis::tp};
  CHECK(call(op) == "reduce_scatter bf16 f32 6");
  op.shard.accumulates = true;
  CHECK(call(op) == "reduce_scatter bf16 f32 6 add");
  CHECK(call(op, 2) == "reduce_scatter bf16 f32 6");  // its first writer
}

TEST_CASE_METHOD(CollectivesTest, "sizes that do not fit the axis are refused") {
  CHECK_THROWS_AS(call(AllGather{.shard = matrix<In>(0, DType::bf16, 2, 3),
                                 .full = matrix<Out>(1, DType::bf16, 4, 3),
                                 .axis = Axis::tp}),
                  InternalError);
}

}  // namespace
}  // namespace titan::cuda
