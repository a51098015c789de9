// The host's device memory and copies.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>

#include "tests/kernels/cuda/host/streams_fixture.h"

namespace titan::cuda {
namespace {

using namespace test;  // NOLINT: kernels and orders

float* device_floats(std::size_t count) {
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, count * sizeof(float)) == cudaSuccess);
  return static_cast<float*>(p);
}

TEST_CASE_METHOD(StreamsFixture, "device memory is NaN when it is given, and aligned") {
  float* const p = device_floats(5);
  for (int i = 0; i < 5; ++i) CHECK(std::isnan(p[i]));
  CHECK(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
  CHECK(host::in_device_memory(p, 20));
  CHECK(!host::in_device_memory(p, 21));
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(!host::in_device_memory(p, 1));
  CHECK(cudaFree(p) == cudaErrorInvalidValue);
  CHECK(cudaFree(nullptr) == cudaSuccess);
}

TEST_CASE_METHOD(StreamsFixture, "memory runs out, and the error is read once") {
  std::size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  const std::size_t used = total - free;
  host::set_device_memory(static_cast<std::int64_t>(used + 1000));
  void *p = nullptr, *q = nullptr;
  CHECK(cudaMalloc(&p, 600) == cudaSuccess);
  cudaMemGetInfo(&free, &total);
  CHECK((free == 400 && total == used + 1000));
  CHECK(cudaMalloc(&q, 401) == cudaErrorMemoryAllocation);
  CHECK(q == nullptr);
  CHECK(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(cudaMalloc(&q, 1000) == cudaSuccess);
  CHECK(cudaFree(q) == cudaSuccess);
  host::set_device_memory(std::int64_t{8} << 30);
}

TEST_CASE_METHOD(StreamsFixture, "copies in a wrong direction or over an end are refused") {
  float host_memory[4] = {};
  const auto copy = [&](void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, a);
    CHECK(cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, a) == error);
    CHECK(cudaMemcpy(to, from, bytes, kind) == error);
    cudaDeviceSynchronize();
    cudaGetLastError();
    return error;
  };
  constexpr auto kWrong = cudaErrorInvalidMemcpyDirection;
  CHECK(copy(x, host_memory, 16, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(copy(x, host_memory, 16, cudaMemcpyDefault) == cudaSuccess);
  CHECK(copy(x, host_memory, 16, cudaMemcpyDeviceToHost) == kWrong);
  CHECK(copy(x, host_memory, 16, cudaMemcpyDeviceToDevice) == kWrong);
  CHECK(copy(x, host_memory, 16, cudaMemcpyHostToHost) == kWrong);
  CHECK(copy(host_memory, x, 16, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(copy(host_memory, x, 16, cudaMemcpyHostToDevice) == kWrong);
  CHECK(copy(x + 4, x, 16, cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(copy(x + 5, x, 16, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(copy(x + 5, host_memory, 16, cudaMemcpyDefault) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy2DAsync(x, 16, host_memory, 4, 8, 2, cudaMemcpyDefault, a) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy2DAsync(x, 16, x + 4, 12, 4, 3, cudaMemcpyDefault, a) == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(host_memory, 0, 4, a) == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(x + 7, 0, 5, a) == cudaErrorInvalidValue);
}

TEST_CASE_METHOD(StreamsFixture, "rows of two pitches") {
  for (int i = 0; i < kFloats; ++i) x[i] = static_cast<float>(i);
  float rows[2][3] = {};
  CHECK(cudaMemcpy2DAsync(rows, 12, x, 16, 8, 2, cudaMemcpyDeviceToHost, a) == cudaSuccess);
  CHECK(rows[1][1] == 0);
  cudaStreamSynchronize(a);
  CHECK((rows[0][0] == 0 && rows[0][1] == 1 && rows[0][2] == 0));
  CHECK((rows[1][0] == 4 && rows[1][1] == 5 && rows[1][2] == 0));
}

TEST_CASE_METHOD(StreamsFixture, "cudaMemcpy does not wait for the other streams") {
  const auto program = [&](bool waits) {
    float y = -1;
    run(a, set, x, 1.0f);
    if (waits) cudaStreamSynchronize(a);
    cudaMemcpy(&y, x, sizeof y, cudaMemcpyDeviceToHost);
    return y;
  };
  CHECK(right_orders(*this, 1, [&] { return program(true); }) == kAllOrders);
  CHECK(right_orders(*this, 1, [&] { return program(false); }) < kAllOrders);
}

TEST_CASE_METHOD(StreamsFixture, "from pageable memory cudaMemcpy returns before the device has it") {
  const auto program = [&](bool waits) {
    float y = 3;
    CHECK(cudaMemcpy(x, &y, sizeof y, cudaMemcpyHostToDevice) == cudaSuccess);
    y = 0;  // it has been read
    if (waits) cudaStreamSynchronize(nullptr);
    run(a, add, x, x + 1, 1.0f);
    cudaStreamSynchronize(a);
    return x[1];
  };
  CHECK(right_orders(*this, 4, [&] { return program(true); }) == kAllOrders);
  CHECK(right_orders(*this, 4, [&] { return program(false); }) < kAllOrders);
}

TEST_CASE_METHOD(StreamsFixture, "from pinned memory cudaMemcpy returns when all is done") {
  void* p = nullptr;
  REQUIRE(cudaHostAlloc(&p, sizeof(float), cudaHostAllocDefault) == cudaSuccess);
  CHECK(std::isnan(*static_cast<float*>(p)));
  *static_cast<float*>(p) = 3;
  CHECK(right_orders(*this, 3, [&] {
          cudaMemcpy(x, p, sizeof(float), cudaMemcpyHostToDevice);
          return *x;
        }) == kAllOrders);
  CHECK(cudaFreeHost(p) == cudaSuccess);
  CHECK(cudaFreeHost(p) == cudaErrorInvalidValue);
}

TEST_CASE_METHOD(StreamsFixture, "cudaMemset returns before the device memory is written") {
  *x = 5;
  CHECK(cudaMemset(x, 0, sizeof *x) == cudaSuccess);
  CHECK(*x == 5);
  cudaStreamSynchronize(nullptr);
  CHECK(*x == 0);
}

TEST_CASE_METHOD(StreamsFixture, "cudaFree waits for all that still uses memory") {
  float* const p = device_floats(1);
  run(a, set, p, 2.0f);
  run(a, add, p, x, 1.0f);
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(*x == 3);
}

#ifdef __SANITIZE_ADDRESS__
/// Whether AddressSanitizer ends a process that does this.
template <class F>
bool ends_the_process(F f) {
  const pid_t child = fork();
  if (child == 0) {
    freopen("/dev/null", "w", stderr);
    f();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status != 0;
}

TEST_CASE_METHOD(StreamsFixture, "AddressSanitizer sees reads of freed memory and behind the end") {
  const auto reads = [&](float* p) {
    run(a, add, p, x, 0.0f);
    cudaStreamSynchronize(a);
  };
  CHECK(ends_the_process([&] {
    float* const p = device_floats(1);
    cudaFree(p);
    reads(p);
  }));
  CHECK(ends_the_process([&] { reads(device_floats(3) + 3); }));
  CHECK(!ends_the_process([&] { reads(device_floats(3) + 2); }));
}
#endif

}  // namespace
}  // namespace titan::cuda
