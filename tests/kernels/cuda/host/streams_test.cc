// The host's streams and events: right programs are right in every order, planted mistakes show in one.
#include <cstring>
#include <string>

#include "tests/kernels/cuda/host/streams_fixture.h"

namespace titan::cuda {
namespace {

using namespace test;  // NOLINT: kernels and orders
using host::StreamOrder;

TEST_CASE_METHOD(StreamsFixture, "nothing runs before a wait") {
  *x = 0;
  run(a, set, x, 1.0f);
  run(nullptr, set, x + 1, 1.0f);
  CHECK(*x == 0);
  CHECK(cudaStreamSynchronize(b) == cudaSuccess);
  CHECK(cudaStreamSynchronize(a) == cudaSuccess);
  CHECK(*x == 1);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(x[1] == 1);
}

TEST_CASE_METHOD(StreamsFixture, "what a launch is given is read at the launch") {
  float value = 1;
  run(a, set, x, value);
  value = 2;
  cudaStreamSynchronize(a);
  CHECK(*x == 1);
}

/// What runs, in its order: two pieces in each of two streams.
std::string trace(StreamsFixture& s, StreamOrder order, std::uint64_t seed, cudaStream_t wanted) {
  s.clear();
  host::set_stream_order(order, seed);
  std::string ran;
  for (const char* piece : {"1", "2"}) {
    host::enqueue(s.a, [&ran, piece] { ran += std::string("a") + piece; });
    host::enqueue(s.b, [&ran, piece] { ran += std::string("b") + piece; });
  }
  const cudaError_t error = wanted != nullptr ? cudaStreamSynchronize(wanted) : cudaDeviceSynchronize();
  CHECK(error == cudaSuccess);
  const std::string seen = ran;
  cudaDeviceSynchronize();
  CHECK(ran.size() == 8);
  return seen;
}

TEST_CASE_METHOD(StreamsFixture, "each order is what it says") {
  CHECK(trace(*this, StreamOrder::enqueued, 0, nullptr) == "a1b1a2b2");
  CHECK(trace(*this, StreamOrder::enqueued, 0, a) == "a1b1a2");
  CHECK(trace(*this, StreamOrder::late, 0, a) == "a1a2");
  CHECK(trace(*this, StreamOrder::late, 0, b) == "b1b2");
  CHECK(trace(*this, StreamOrder::newest, 0, nullptr) == "b1b2a1a2");
  bool differs = false;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const std::string ran = trace(*this, StreamOrder::random, seed, nullptr);
    CHECK(trace(*this, StreamOrder::random, seed, nullptr) == ran);
    CHECK(ran.find("a1") < ran.find("a2"));
    CHECK(ran.find("b1") < ran.find("b2"));
    differs = differs || ran != trace(*this, StreamOrder::random, 0, nullptr);
  }
  CHECK(differs);
}

TEST_CASE_METHOD(StreamsFixture, "a missing wait shows, and with it the program is right in all orders") {
  const auto program = [&](bool waits) {
    run(a, set, x, 1.0f);
    if (waits) order(a, b, e);
    run(b, add, x, x + 1, 1.0f);
    if (waits) order(b, c, f);
    run(c, add, x + 1, x + 2, 1.0f);
    cudaStreamSynchronize(c);
    return x[2];
  };
  CHECK(right_orders(*this, 3, [&] { return program(true); }) == kAllOrders);
  CHECK(right_orders(*this, 3, [&] { return program(false); }) < kAllOrders);
}

TEST_CASE_METHOD(StreamsFixture, "overwriting what another stream still reads shows") {
  const auto program = [&](bool waits) {
    x[0] = 5;
    run(a, add, x, x + 1, 0.0f);
    if (waits) order(a, b, e);
    run(b, set, x, 9.0f);
    cudaStreamSynchronize(b);
    cudaStreamSynchronize(a);
    return x[1];
  };
  CHECK(right_orders(*this, 5, [&] { return program(true); }) == kAllOrders);
  CHECK(right_orders(*this, 5, [&] { return program(false); }) < kAllOrders);
}

TEST_CASE_METHOD(StreamsFixture, "a wait is for the recording before it, whatever is recorded later") {
  const auto waits_for_first = [&] {
    run(a, set, x, 1.0f);
    order(a, b, e);
    cudaEventRecord(e, c);  // c is empty: this one is reached at once
    run(b, add, x, x + 1, 1.0f);
    cudaStreamSynchronize(b);
    return x[1];
  };
  CHECK(right_orders(*this, 2, waits_for_first) == kAllOrders);
  const auto waits_for_second = [&] {
    cudaEventRecord(e, c);
    run(a, set, x, 1.0f);
    order(a, b, e);
    run(b, add, x, x + 1, 1.0f);
    cudaStreamSynchronize(b);
    return x[1];
  };
  CHECK(right_orders(*this, 2, waits_for_second) == kAllOrders);
}

TEST_CASE_METHOD(StreamsFixture, "a wait before the record is no wait") {
  const auto program = [&] {
    run(a, set, x, 1.0f);
    cudaEvent_t fresh = nullptr;
    cudaEventCreateWithFlags(&fresh, cudaEventDisableTiming);
    cudaStreamWaitEvent(b, fresh);
    cudaEventRecord(fresh, a);
    run(b, add, x, x + 1, 1.0f);
    cudaStreamSynchronize(b);
    cudaEventDestroy(fresh);
    return x[1];
  };
  CHECK(right_orders(*this, 2, program) < kAllOrders);
}

TEST_CASE_METHOD(StreamsFixture, "waiting for an event runs what is before it") {
  const auto program = [&] {
    run(a, set, x, 1.0f);
    order(a, b, e);
    run(b, add, x, x + 1, 1.0f);
    cudaEventRecord(f, b);
    cudaEventSynchronize(f);
    return x[1];
  };
  CHECK(right_orders(*this, 2, program) == kAllOrders);
  cudaEvent_t fresh = nullptr;
  cudaEventCreateWithFlags(&fresh, 0);
  CHECK(cudaEventSynchronize(fresh) == cudaSuccess);
  CHECK(cudaEventQuery(fresh) == cudaSuccess);
  cudaEventDestroy(fresh);
}

TEST_CASE_METHOD(StreamsFixture, "polling ends, and not-ready is the last error until it is read") {
  run(a, set, x, 1.0f);
  cudaEventRecord(e, a);
  CHECK(cudaEventQuery(e) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(b) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorNotReady);
  CHECK(cudaGetLastError() == cudaSuccess);
  int polls = 0;
  while (cudaEventQuery(e) == cudaErrorNotReady && polls < 100) ++polls;
  CHECK(polls < 100);
  CHECK(*x == 1);
  CHECK(cudaStreamQuery(a) == cudaSuccess);
}

TEST_CASE_METHOD(StreamsFixture, "destroying waits for nothing, and what was enqueued still runs") {
  const auto program = [&] {
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, 0);
    run(stream, set, x, 1.0f);
    order(stream, b, event);
    cudaEventDestroy(event);
    cudaStreamDestroy(stream);
    CHECK(x[0] == 0);
    run(b, add, x, x + 1, 1.0f);
    cudaStreamSynchronize(b);
    return x[1];
  };
  CHECK(right_orders(*this, 2, program) == kAllOrders);
}

TEST_CASE_METHOD(StreamsFixture, "handles of dead streams and events are refused, and never given again") {
  cudaStream_t dead = nullptr, fresh = nullptr;
  cudaEvent_t dead_event = nullptr;
  cudaStreamCreateWithFlags(&dead, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&dead_event, 0);
  CHECK(cudaStreamDestroy(dead) == cudaSuccess);
  CHECK(cudaEventDestroy(dead_event) == cudaSuccess);
  cudaStreamCreateWithFlags(&fresh, cudaStreamNonBlocking);
  CHECK(fresh != dead);
  run(dead, set, x, 1.0f);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamSynchronize(dead) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamQuery(dead) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamDestroy(dead) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(e, dead) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamWaitEvent(dead, e) == cudaErrorInvalidResourceHandle);
  CHECK(cudaMemsetAsync(x, 0, 4, dead) == cudaErrorInvalidResourceHandle);
  CHECK(cudaMemcpyAsync(x, x + 1, 4, cudaMemcpyDefault, dead) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(dead_event, a) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamWaitEvent(a, dead_event) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventSynchronize(dead_event) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamDestroy(nullptr) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamDestroy(fresh) == cudaSuccess);
}

TEST_CASE_METHOD(StreamsFixture, "streams that the default one waits for are not modelled") {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, 0) == cudaErrorInvalidValue);
}

TEST_CASE_METHOD(StreamsFixture, "times between events") {
  float ms = -1;
  cudaEventRecord(e, a);
  run(a, set, x, 1.0f);
  cudaEventRecord(f, a);
  CHECK(cudaEventElapsedTime(&ms, e, f) == cudaErrorNotReady);
  cudaStreamSynchronize(a);
  CHECK(cudaEventElapsedTime(&ms, e, f) == cudaSuccess);
  CHECK((ms >= 0 && ms < 10'000));
  CHECK(cudaEventElapsedTime(&ms, e, g) == cudaErrorInvalidResourceHandle);  // never recorded
  cudaEvent_t untimed = nullptr;
  cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming);
  cudaEventRecord(untimed, a);
  cudaStreamSynchronize(a);
  CHECK(cudaEventElapsedTime(&ms, e, untimed) == cudaErrorInvalidResourceHandle);
  cudaEventDestroy(untimed);
}

__global__ void fails(float*) {
  if (threadIdx.x == 0)
    __syncthreads();
  else
    __syncthreads();
}

TEST_CASE_METHOD(StreamsFixture, "a kernel's error stays, with its message, and stops what comes after it") {
  launch(fails, dim3(1), dim3(2), 0, a, x);
  run(a, set, x, 1.0f);
  *x = 0;
  CHECK(cudaGetLastError() == cudaSuccess);  // it has not run yet
  CHECK(cudaStreamSynchronize(a) == cudaErrorLaunchFailure);
  CHECK_THAT(cudaGetErrorString(cudaErrorLaunchFailure), Catch::Contains("divergent barrier"));
  CHECK(std::strcmp(cudaGetErrorName(cudaErrorLaunchFailure), "cudaErrorLaunchFailure") == 0);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaStreamSynchronize(b) == cudaErrorLaunchFailure);
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 16) == cudaErrorLaunchFailure);
  cudaFree(p);
  CHECK(*x == 0);
  host::reset_device();
  run(a, set, x, 1.0f);
  CHECK(cudaStreamSynchronize(a) == cudaSuccess);
  CHECK(*x == 1);
}

TEST_CASE_METHOD(StreamsFixture, "host functions run in their stream and must not call the runtime") {
  struct Seen {
    const float* x;
    float value;
  } seen{x, -1};
  run(a, set, x, 4.0f);
  CHECK(cudaLaunchHostFunc(
            a, [](void* p) { static_cast<Seen*>(p)->value = *static_cast<Seen*>(p)->x; }, &seen) ==
        cudaSuccess);
  CHECK(seen.value == -1);
  CHECK(cudaStreamSynchronize(a) == cudaSuccess);
  CHECK(seen.value == 4);
  cudaLaunchHostFunc(
      a, [](void*) { cudaStreamQuery(nullptr); }, nullptr);
  CHECK(cudaStreamSynchronize(a) == cudaErrorNotPermitted);
}

}  // namespace
}  // namespace titan::cuda
