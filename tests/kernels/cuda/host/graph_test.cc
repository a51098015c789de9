// The host's stream capture and graphs.
#include <thread>

#include "tests/kernels/cuda/host/streams_fixture.h"

namespace titan::cuda {
namespace {

using namespace test;  // NOLINT: kernels and orders

constexpr auto kGlobal = cudaStreamCaptureModeGlobal, kThread = cudaStreamCaptureModeThreadLocal,
               kRelaxed = cudaStreamCaptureModeRelaxed;

class GraphFixture : public StreamsFixture {
 public:
  ~GraphFixture() {
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
  }
  void begin(cudaStreamCaptureMode mode = kGlobal) { CHECK(cudaStreamBeginCapture(a, mode) == cudaSuccess); }
  /// Ends the capture of stream a.
  cudaError_t end() {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(a, &graph);
    CHECK((graph != nullptr) == (error == cudaSuccess));
    if (graph != nullptr) cudaGraphDestroy(graph);
    return error;
  }
  cudaGraphExec_t end_and_instantiate() {
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(a, &graph) == cudaSuccess);
    CHECK(cudaGraphInstantiate(&exec_, graph) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    return exec_;
  }

 private:
  cudaGraphExec_t exec_ = nullptr;
};

TEST_CASE_METHOD(GraphFixture, "a graph keeps the order of a fork and a join, in every launch") {
  const auto capture = [&](bool waits) {
    begin();
    run(a, add, x, x, 1.0f);
    order(a, b, e);
    if (!waits) order(a, c, f);
    run(b, add, x, x + 1, 10.0f);
    run(waits ? b : c, add, x + 1, x + 2, 100.0f);  // needs what b made
    run(a, add, x, x + 3, 1000.0f);
    order(b, a, g);
    if (!waits) order(c, a, f);
    run(a, sum, x + 2, x + 3, x + 4);
    CHECK(x[0] == 0);  // nothing ran
    return end_and_instantiate();
  };
  for (const bool waits : {true, false}) {
    clear();
    const cudaGraphExec_t exec = capture(waits);
    const int right = right_orders(*this, 1114, [&] {
      cudaGraphLaunch(exec, a);
      cudaGraphLaunch(exec, a);
      CHECK(x[0] == 0);
      cudaStreamSynchronize(a);
      CHECK(x[0] == 2);
      return x[4];
    });
    CHECK((right == kAllOrders) == waits);
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
    CHECK(cudaGraphLaunch(exec, a) == cudaErrorInvalidValue);
    cudaGetLastError();
  }
}

TEST_CASE_METHOD(GraphFixture, "launches of one graph come after each other, in whatever streams") {
  begin();
  run(a, add, x, x + 1, 0.0f);
  run(a, add, x + 1, x, 1.0f);
  const cudaGraphExec_t exec = end_and_instantiate();
  const auto program = [&] {
    run(a, set, x, 5.0f);
    cudaGraphLaunch(exec, a);
    cudaGraphLaunch(exec, b);
    cudaStreamSynchronize(b);
    return x[0];
  };
  CHECK(right_orders(*this, 7, program) == kAllOrders);
}

TEST_CASE_METHOD(GraphFixture, "a graph's nodes are not in order with other streams") {
  begin();
  run(a, add, x, x + 1, 1.0f);
  const cudaGraphExec_t exec = end_and_instantiate();
  const auto program = [&](bool waits) {
    run(b, set, x, 5.0f);
    if (waits) order(b, a, e);
    cudaGraphLaunch(exec, a);
    cudaStreamSynchronize(a);
    return x[1];
  };
  CHECK(right_orders(*this, 6, [&] { return program(true); }) == kAllOrders);
  CHECK(right_orders(*this, 6, [&] { return program(false); }) < kAllOrders);
}

TEST_CASE_METHOD(GraphFixture, "what a launch needs outlives the graph's handle") {
  begin();
  run(a, add, x, x, 1.0f);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaStreamEndCapture(a, &graph);
  cudaGraphInstantiate(&exec, graph);
  cudaGraphDestroy(graph);
  CHECK(cudaGraphInstantiate(&exec, graph) == cudaErrorInvalidValue);
  cudaGetLastError();
  CHECK(exec == nullptr);
}

TEST_CASE_METHOD(GraphFixture, "copies and memory sets are captured too") {
  clear();
  begin();
  CHECK(cudaMemsetAsync(x + 1, 0, sizeof *x, a) == cudaSuccess);
  CHECK(cudaMemcpyAsync(x + 2, x, sizeof *x, cudaMemcpyDeviceToDevice, a) == cudaSuccess);
  const cudaGraphExec_t exec = end_and_instantiate();
  x[0] = 3, x[1] = 3;
  cudaGraphLaunch(exec, b);
  cudaStreamSynchronize(b);
  CHECK(x[1] == 0);
  CHECK(x[2] == 3);
}

TEST_CASE_METHOD(GraphFixture, "a branch that is not joined is refused") {
  begin();
  run(a, set, x, 1.0f);
  order(a, b, e);
  run(b, set, x + 1, 1.0f);
  CHECK(end() == cudaErrorStreamCaptureUnjoined);
  run(b, set, x + 1, 2.0f);  // b is out of the capture
  CHECK(cudaStreamSynchronize(b) == cudaSuccess);
  CHECK(x[1] == 2);
}

TEST_CASE_METHOD(GraphFixture, "waiting, asking and allocating break a capture") {
  void* p = nullptr;
  float on_host = 0;
  cudaEventRecord(g, b);
  const auto breaks = [&](cudaError_t want, auto call) {
    begin();
    run(a, set, x, 1.0f);
    cudaEventRecord(e, a);
    CHECK(call() == want);
    CHECK(cudaGetLastError() == want);
    run(a, set, x, 1.0f);
    CHECK(cudaGetLastError() == cudaErrorStreamCaptureInvalidated);
    CHECK(cudaEventRecord(f, a) == cudaErrorStreamCaptureInvalidated);
    CHECK(end() == cudaErrorStreamCaptureInvalidated);
    CHECK(cudaStreamSynchronize(a) == cudaSuccess);
    cudaGetLastError();
  };
  constexpr auto kUnsupported = cudaErrorStreamCaptureUnsupported;
  breaks(kUnsupported, [&] { return cudaStreamSynchronize(a); });
  breaks(kUnsupported, [&] { return cudaStreamSynchronize(b); });
  breaks(kUnsupported, [&] { return cudaStreamQuery(a); });
  breaks(kUnsupported, [&] { return cudaDeviceSynchronize(); });
  breaks(kUnsupported, [&] { return cudaEventQuery(g); });
  breaks(kUnsupported, [&] { return cudaEventSynchronize(g); });
  breaks(cudaErrorCapturedEvent, [&] { return cudaEventQuery(e); });
  breaks(cudaErrorCapturedEvent, [&] { return cudaEventSynchronize(e); });
  breaks(kUnsupported, [&] { return cudaMalloc(&p, 16); });
  breaks(kUnsupported, [&] { return cudaFree(x); });
  breaks(kUnsupported, [&] { return cudaHostAlloc(&p, 16, cudaHostAllocDefault); });
  breaks(kUnsupported, [&] { return cudaMemcpy(&on_host, x, sizeof on_host, cudaMemcpyDeviceToHost); });
  breaks(kUnsupported, [&] { return cudaMemset(x, 0, sizeof *x); });
  breaks(kUnsupported, [&] { return cudaStreamDestroy(a); });
  breaks(cudaErrorStreamCaptureIsolation, [&] { return cudaStreamWaitEvent(a, g); });
  CHECK(p == nullptr);
}

TEST_CASE_METHOD(GraphFixture, "the mode of a capture says which threads may allocate") {
  void* p = nullptr;
  const auto elsewhere = [&] {
    cudaError_t error = cudaSuccess;
    std::thread([&] { error = cudaMalloc(&p, 16); }).join();
    if (error == cudaSuccess) cudaFree(p);
    return error;
  };
  begin(kRelaxed);
  run(a, set, x, 1.0f);
  CHECK(cudaMalloc(&p, 16) == cudaSuccess);
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(end() == cudaSuccess);

  begin(kGlobal);
  CHECK(elsewhere() == cudaErrorStreamCaptureUnsupported);
  CHECK(end() == cudaErrorStreamCaptureInvalidated);

  begin(kThread);
  std::thread([&] {
    CHECK(cudaMalloc(&p, 16) == cudaSuccess);
    CHECK(cudaFree(p) == cudaSuccess);
  }).join();
  CHECK(end() == cudaSuccess);
}

TEST_CASE_METHOD(GraphFixture, "a capture ends where and by whom it began") {
  cudaGraph_t graph = nullptr;
  begin();
  run(a, set, x, 1.0f);
  order(a, b, e);
  run(b, set, x, 1.0f);
  CHECK(cudaStreamEndCapture(b, &graph) == cudaErrorStreamCaptureUnmatched);
  CHECK(end() == cudaErrorStreamCaptureInvalidated);

  begin();
  std::thread([&] { CHECK(cudaStreamEndCapture(a, &graph) == cudaErrorStreamCaptureWrongThread); }).join();
  CHECK(end() == cudaErrorStreamCaptureInvalidated);

  CHECK(cudaStreamEndCapture(a, &graph) == cudaErrorInvalidValue);
  CHECK(cudaStreamBeginCapture(nullptr, kGlobal) == cudaErrorStreamCaptureUnsupported);
  begin();
  CHECK(cudaStreamBeginCapture(a, kGlobal) == cudaErrorInvalidValue);
  CHECK(end() == cudaSuccess);
}

TEST_CASE_METHOD(GraphFixture, "two captures do not merge, and events of ended ones are dead") {
  cudaGraph_t graph = nullptr;
  begin();
  CHECK(cudaStreamBeginCapture(b, kGlobal) == cudaSuccess);
  cudaEventRecord(e, a);
  CHECK(cudaStreamWaitEvent(b, e) == cudaErrorStreamCaptureMerge);
  CHECK(cudaStreamEndCapture(b, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(end() == cudaErrorStreamCaptureInvalidated);

  begin();
  run(a, set, x, 1.0f);
  cudaEventRecord(e, a);
  CHECK(end() == cudaSuccess);
  CHECK(cudaStreamWaitEvent(b, e) == cudaErrorCapturedEvent);
  CHECK(cudaEventSynchronize(e) == cudaErrorCapturedEvent);
  CHECK(cudaEventRecord(e, a) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(b, e) == cudaSuccess);
  CHECK(cudaStreamSynchronize(b) == cudaSuccess);
}

}  // namespace
}  // namespace titan::cuda
