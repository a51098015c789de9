// What the host's stand-in for cuBLASLt makes certain: algorithms that differ, short memory, refusals.
#include "kernels/base/error.h"
#include "kernels/cost/workspace.h"
#include "kernels/cuda/host/streams.h"
#include "tests/kernels/cuda/gemm/gemm_fixture.h"

namespace titan::cuda {
namespace {

using Catch::Contains;

TEST_CASE("measuring takes the fastest algorithm by its median", "[gemm]") {
  GemmFixture f;
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

TEST_CASE("without memory for another sum the heuristic's algorithm runs", "[gemm]") {
  GemmFixture f, poor;
  poor.op.c.accumulates = f.op.c.accumulates = true;
  GemmEngine engine;
  f.run(engine);
  int asked = 0;
  GemmEngine starved(with_seconds({2, 1, 1, 1}, &asked));
  host::set_device_memory(0);
  poor.run(starved);
  CHECK(asked == 0);
  CHECK(only_algorithm(starved) == only_algorithm(engine));
  CHECK(cudaGetLastError() == cudaSuccess);
  host::set_device_memory(std::int64_t{8} << 30);
}

TEST_CASE("algorithms differ in their bits", "[gemm]") {
  GemmFixture f;
  GemmEngine measuring(with_seconds({3, 3, 1, 3})), plain;
  CHECK(f.run(measuring) != f.run(plain));
}

TEST_CASE("a stored algorithm that cuBLASLt does not know says what to do", "[gemm]") {
  GemmFixture f;
  GemmEngine engine;
  f.run(engine);
  GemmTable other = engine.table();
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

TEST_CASE("machines with GPUs ask for cuBLASLt's workspace, others for none", "[gemm]") {
  CHECK(gemm_workspace_bytes(Gemm{}, *known_machine("h200")) == 32 << 20);
  CHECK(gemm_workspace_bytes(Gemm{}, cpu_machine("avx2", 2, 1e11, 1e11, 1e10, 1 << 30)) == 0);
}

}  // namespace
}  // namespace titan::cuda
