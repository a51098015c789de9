// The plans of matrix products: when they are made, which algorithm they take, and that it stays the same.
#include "kernels/base/error.h"
#include "tests/kernels/cuda/gemm/gemm_fixture.h"

namespace titan::cuda {
namespace {

using Catch::Contains;

TEST_CASE("equal products share a plan, others do not", "[gemm]") {
  GemmFixture f;
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
  GemmFixture f;
  GemmEngine one, two;
  const std::vector<std::byte> bits = f.run(one);
  CHECK(f.run(two) == bits);
  CHECK(one.table() == two.table());
  CHECK(one.table().made_like(GemmEngine::empty_table()));
}

TEST_CASE("what the product may use is part of its key", "[gemm]") {
  GemmFixture f;
  GemmOptions options;
  options.multiprocessors = 3;
  GemmEngine engine(options);
  f.run(engine);
  CHECK(engine.table().algorithms.begin()->first.multiprocessors == 3);
}

TEST_CASE("time in a stream is that between its events", "[gemm]") {
  GemmFixture f;
  GemmEngine engine;
  f.run(engine);
  CHECK(time_in_stream([&] { f.enqueue(engine, nullptr); }, nullptr) > 0);
}

TEST_CASE("a product is measured once, and not at all while its stream captures", "[gemm]") {
  GemmFixture f;
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
  GemmFixture f, measured;
  f.op.c.accumulates = measured.op.c.accumulates = true;
  GemmEngine engine, measuring(with_seconds({1, 2, 2, 2}));
  CHECK(f.run(engine) == measured.run(measuring));
  CHECK(f.run(engine) == measured.run(measuring));
}

TEST_CASE("a stored table gives the same algorithms and the same bits", "[gemm]") {
  GemmFixture f;
  GemmEngine measuring(with_seconds({3, 3, 1, 3}));
  const std::vector<std::byte> bits = f.run(measuring);

  int asked = 0;
  GemmEngine resumed(with_seconds({1, 3, 3, 3}, &asked),
                     parse_gemm_table(to_text(measuring.table()), "stored"));
  CHECK(f.run(resumed) == bits);
  CHECK(asked == 0);
  CHECK(resumed.table() == measuring.table());
}

TEST_CASE("a table of another device, version or library is refused", "[gemm]") {
  GemmFixture f;
  GemmEngine engine;
  f.run(engine);
  GemmTable other = engine.table();
  other.device = "another GPU";
  CHECK_THROWS_WITH(GemmEngine({}, other), Contains("another GPU") && Contains(engine.table().device));
  other = engine.table();
  ++other.cublaslt_version;
  CHECK_THROWS_AS(GemmEngine({}, other), UserError);
}

TEST_CASE("two streams with workspaces of their own do not meet", "[gemm]") {
  GemmFixture one, two;
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

}  // namespace
}  // namespace titan::cuda
