// The plans of matrix products: when they are made, which algorithm they take, and that it stays the same.
#include "kernels/cuda/gemm/gemm_engine.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "kernels/base/bf16.h"
#include "kernels/base/error.h"
#include "kernels/cost/workspace.h"
#include "kernels/cuda/base/check.h"
#include "kernels/cuda/base/run.h"
#include "kernels/cuda/host/streams.h"

namespace titan::cuda {
namespace {

using Catch::Contains;

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) : bytes_(bytes) { TITAN_CUDA(cudaMalloc(&p_, bytes)); }
  ~DeviceMemory() { cudaFree(p_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  std::byte* get() const { return static_cast<std::byte*>(p_); }
  std::vector<std::byte> bytes() const { return {get(), get() + bytes_}; }

 private:
  void* p_ = nullptr;
  std::size_t bytes_;
};

/// c [24, 16] f32 = a [24, 640]·b [640, 16] of bf16: a long sum, so that algorithms differ in their bits.
class Fixture {
 public:
  Fixture() {
    std::mt19937 random(7);
    std::normal_distribution<float> draw;
    for (const auto& [memory, count] : {std::pair{&a_, kRows * kDepth}, {&b_, kDepth * kCols}})
      for (int i = 0; i < count; ++i) reinterpret_cast<bf16*>(memory->get())[i] = to_bf16(draw(random));
    std::memset(c_.get(), 0, c_.bytes().size());
    op.a = {{0, DType::bf16, kRows, kDepth, kDepth}};
    op.b = {{1, DType::bf16, kDepth, kCols, kCols}};
    op.c = {{2, DType::f32, kRows, kCols, kCols}};
    op.workspace = {{3, DType::f32, 1, kWorkspace / 4, kWorkspace / 4}};
    addresses_[0] = a_.get(), addresses_[1] = b_.get(), addresses_[2] = c_.get();
    addresses_[3] = workspace_.get();
  }
  ~Fixture() { host::set_device_memory(std::int64_t{8} << 30); }

  std::vector<std::byte> run(GemmEngine& engine, cudaStream_t stream = nullptr) {
    enqueue(engine, stream);
    TITAN_CUDA(cudaStreamSynchronize(stream));
    return c_.bytes();
  }
  void enqueue(GemmEngine& engine, cudaStream_t stream) {
    const Binding binding{.addresses = addresses_, .overwrite = 0};
    titan::cuda::run(op, Context{.binding = binding, .stream = stream, .device = {}, .gemm = &engine});
  }
  void shift(int operand, int bytes) { addresses_[operand] += bytes; }

  Gemm op;

 private:
  static constexpr int kRows = 24, kCols = 16, kDepth = 640, kWorkspace = 1 << 20;
  // One row more, for shifted operands.
  DeviceMemory a_{(kRows + 1) * kDepth * 2}, b_{(kDepth + 1) * kCols * 2}, c_{(kRows + 1) * kCols * 4},
      workspace_{kWorkspace};
  std::byte* addresses_[4];
};

/// An engine's options that measure with the given seconds, one a candidate; each is asked for `repeats`
/// times.
GemmOptions with_seconds(std::vector<double> seconds, int* asked = nullptr) {
  GemmOptions options;
  options.measure = true;
  options.repeats = 3;
  options.stopwatch = [seconds, asked, calls = std::size_t{0}](FunctionRef<void()> launch,
                                                               cudaStream_t) mutable {
    launch();
    if (asked != nullptr) ++*asked;
    return seconds[calls++ / 3 % seconds.size()];
  };
  return options;
}

GemmAlgorithm only_algorithm(const GemmEngine& engine) {
  REQUIRE(engine.table().algorithms.size() == 1);
  return engine.table().algorithms.begin()->second;
}

TEST_CASE("equal products share a plan, others do not", "[gemm]") {
  Fixture f;
  GemmEngine engine;
  f.run(engine);
  f.run(engine);
  CHECK(engine.plans() == 1);
  f.op.c.accumulates = true;
  f.run(engine);
  CHECK(engine.plans() == 2);
  f.op.workspace = {};
  f.run(engine);
  CHECK(engine.plans() == 3);
  f.shift(0, 2);
  f.run(engine);
  CHECK(engine.plans() == 4);
  f.shift(0, 30);  // a multiple of 16 again
  f.run(engine);
  CHECK(engine.plans() == 4);
  f.op.a.cols = f.op.b.rows = 320;
  f.run(engine);
  CHECK(engine.plans() == 5);
  CHECK(engine.table().algorithms.size() == 5);
}

TEST_CASE("without measuring the heuristic's first algorithm runs, in every engine", "[gemm]") {
  Fixture f;
  GemmEngine one, two;
  const std::vector<std::byte> bits = f.run(one);
  CHECK(f.run(two) == bits);
  CHECK(one.table() == two.table());
  CHECK(one.table().made_like(GemmEngine::empty_table()));
}

TEST_CASE("what the product may use is part of its key", "[gemm]") {
  Fixture f;
  GemmOptions options;
  options.multiprocessors = 3;
  GemmEngine engine(options);
  f.run(engine);
  CHECK(engine.table().algorithms.begin()->first.multiprocessors == 3);
}

TEST_CASE("measuring takes the fastest algorithm by its median", "[gemm]") {
  Fixture f;
  std::vector<GemmAlgorithm> chosen;
  for (const std::size_t best : {0, 1, 2}) {
    std::vector<double> seconds{3, 3, 3, 3};
    seconds[best] = 1;
    GemmEngine engine(with_seconds(seconds));
    f.run(engine);
    chosen.push_back(only_algorithm(engine));
  }
  CHECK(chosen[0] != chosen[1]);
  CHECK(chosen[0] != chosen[2]);
  CHECK(chosen[1] != chosen[2]);
  GemmEngine by_heuristic;
  f.run(by_heuristic);
  CHECK(only_algorithm(by_heuristic) == chosen[0]);

  // One slow and one fast repeat do not count.
  int call = 0;
  const Stopwatch uneven = [&](FunctionRef<void()>, cudaStream_t) {
    constexpr double kSeconds[] = {9, 2, 2, 0.1, 3, 3};
    return kSeconds[call++];
  };
  CHECK(fastest(
            2, 3, [](int) {}, uneven, nullptr) == 0);
}

TEST_CASE("among equals the first is taken, and each is warmed up", "[gemm]") {
  std::vector<int> launches(4, 0);
  const Stopwatch even = [](FunctionRef<void()> launch, cudaStream_t) {
    launch();
    return 1.0;
  };
  CHECK(fastest(
            4, 5, [&](int candidate) { ++launches[static_cast<std::size_t>(candidate)]; }, even, nullptr) ==
        0);
  CHECK(launches == std::vector<int>(4, 6));
}

TEST_CASE("time in a stream is that between its events", "[gemm]") {
  Fixture f;
  GemmEngine engine;
  f.run(engine);
  CHECK(time_in_stream([&] { f.enqueue(engine, nullptr); }, nullptr) > 0);
}

TEST_CASE("a product is measured once, and not at all while its stream captures", "[gemm]") {
  Fixture f;
  int asked = 0;
  GemmEngine engine(with_seconds({1, 1, 1, 1}, &asked));
  f.run(engine);
  const int first = asked;
  CHECK(first > 0);
  f.run(engine);
  CHECK(asked == first);

  cudaStream_t stream = nullptr;
  TITAN_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  GemmEngine captured(with_seconds({1, 1, 1, 1}, &asked));
  TITAN_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  f.enqueue(captured, stream);
  cudaGraph_t graph = nullptr;
  TITAN_CUDA(cudaStreamEndCapture(stream, &graph));
  CHECK(asked == first);
  TITAN_CUDA(cudaGraphDestroy(graph));
  TITAN_CUDA(cudaStreamDestroy(stream));
}

TEST_CASE("measuring leaves a sum what it would have been", "[gemm]") {
  Fixture f, measured;
  f.op.c.accumulates = measured.op.c.accumulates = true;
  GemmEngine engine, measuring(with_seconds({1, 2, 2, 2}));
  CHECK(f.run(engine) == measured.run(measuring));
  CHECK(f.run(engine) == measured.run(measuring));

  // Without memory for another c it is the heuristic's choice.
  Fixture poor;
  poor.op.c.accumulates = true;
  int asked = 0;
  GemmEngine starved(with_seconds({2, 1, 1, 1}, &asked));
  host::set_device_memory(0);
  poor.run(starved);
  CHECK(asked == 0);
  CHECK(only_algorithm(starved) == only_algorithm(engine));
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("a stored table gives the same algorithms and the same bits", "[gemm]") {
  Fixture f;
  GemmEngine measuring(with_seconds({3, 3, 1, 3})), plain;
  const std::vector<std::byte> bits = f.run(measuring), other = f.run(plain);
  CHECK(bits != other);

  int asked = 0;
  GemmEngine resumed(with_seconds({1, 3, 3, 3}, &asked),
                     parse_gemm_table(to_text(measuring.table()), "stored"));
  CHECK(f.run(resumed) == bits);
  CHECK(asked == 0);
  CHECK(resumed.table() == measuring.table());
}

TEST_CASE("a table of another device, version or library is refused", "[gemm]") {
  Fixture f;
  GemmEngine engine;
  f.run(engine);
  GemmTable other = engine.table();
  other.device = "another GPU";
  CHECK_THROWS_WITH(GemmEngine({}, other), Contains("another GPU") && Contains("CUDA on the host"));
  other = engine.table();
  ++other.cublaslt_version;
  CHECK_THROWS_AS(GemmEngine({}, other), UserError);

  other = engine.table();
  other.algorithms.begin()->second[0] ^= 1;
  GemmEngine broken({}, other);
  CHECK_THROWS_WITH(f.run(broken), Contains("start without the table"));
}

TEST_CASE("a product that cuBLASLt does not take says which", "[gemm]") {
  GemmEngine engine;
  DeviceMemory memory(64);
  // f32 in, bf16 out
  const GemmKey key{.m = 1,
                    .n = 1,
                    .k = 1,
                    .c = DType::bf16,
                    .a_pitch = 1,
                    .b_pitch = 1,
                    .c_pitch = 1,
                    .a_alignment = 16,
                    .b_alignment = 16,
                    .c_alignment = 16};
  CHECK_THROWS_WITH(engine.multiply(key, {.a = memory.get(), .b = memory.get(), .c = memory.get()}, nullptr),
                    Contains("CUBLAS_STATUS_NOT_SUPPORTED") && Contains("m n k"));
}

TEST_CASE("8-bit products need factors of one kind and whole 16 bytes", "[gemm]") {
  DeviceMemory memory(4096);
  Gemm op;
  op.a = {{0, DType::f8e4m3, 32, 16, 16}};
  op.b = {{0, DType::f8e5m2, 16, 16, 16}};
  op.c = {{0, DType::bf16, 32, 16, 16}};
  op.transpose_b = true;
  op.scale_a = op.scale_b = {{0, DType::f32, 1, 1, 1}};
  GemmEngine engine;
  const auto run_at = [&](int offset) {
    std::byte* const address = memory.get() + offset;
    const Binding binding{.addresses = &address, .overwrite = 0};
    titan::cuda::run(op, Context{.binding = binding, .stream = nullptr, .device = {}, .gemm = &engine});
  };
  run_at(0);
  CHECK(engine.table().algorithms.begin()->first.scales == GemmScales::tensor);
  op.fast_accumulation = true;
  run_at(0);
  CHECK(engine.plans() == 2);
  op.scale_a = {{0, DType::f32, 32, 1, 1}};
  CHECK_THROWS_WITH(run_at(0), Contains("scales are neither"));
  op.scale_b = {{0, DType::f32, 16, 1, 1}};
  run_at(0);
  CHECK(engine.plans() == 3);
  CHECK_THROWS_WITH(run_at(8), Contains("CUBLAS_STATUS_NOT_SUPPORTED"));
  op.b.dtype = DType::f8e4m3;
  op.transpose_b = false;
  CHECK_THROWS_WITH(run_at(0), Contains("transpose_b alone"));
  TITAN_CUDA(cudaDeviceSynchronize());
}

TEST_CASE("two streams with workspaces of their own do not meet", "[gemm]") {
  Fixture one, two;
  GemmEngine engine;
  const std::vector<std::byte> bits = one.run(engine);
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) TITAN_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  one.enqueue(engine, streams[0]);
  two.enqueue(engine, streams[1]);
  TITAN_CUDA(cudaDeviceSynchronize());
  CHECK(one.run(engine) == bits);
  CHECK(two.run(engine) == bits);
  for (const cudaStream_t stream : streams) TITAN_CUDA(cudaStreamDestroy(stream));
}

TEST_CASE("machines with GPUs ask for cuBLASLt's workspace, others for none", "[gemm]") {
  CHECK(gemm_workspace_bytes(Gemm{}, *known_machine("h200")) == 32 << 20);
  CHECK(gemm_workspace_bytes(Gemm{}, cpu_machine("avx2", 2, 1e11, 1e11, 1e10, 1 << 30)) == 0);
}

}  // namespace
}  // namespace titan::cuda
