// The machines that the host's CUDA plays: none, several GPUs, older ones.
#include <thread>

#include "tests/kernels/cuda/host/streams_fixture.h"

namespace titan::cuda {
namespace {

using namespace test;  // NOLINT: kernels

class HardwareFixture : public StreamsFixture {
 public:
  ~HardwareFixture() { host::set_hardware({}); }
};

TEST_CASE_METHOD(HardwareFixture, "without devices or a driver even their count is an error") {
  int count = -1;
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 1);
  host::set_hardware({.devices = 0});
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  CHECK(count == 0);
  host::set_hardware({.fault = cudaErrorInsufficientDriver, .driver_version = 12040});
  CHECK(cudaGetDeviceCount(&count) == cudaErrorInsufficientDriver);
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 4) == cudaErrorInsufficientDriver);
  cudaGetLastError();
}

TEST_CASE_METHOD(HardwareFixture, "contexts are made on the devices that are used, not on those looked at") {
  host::set_hardware({.devices = 4});
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 3) == cudaSuccess);
  CHECK(cudaGetDeviceProperties(&properties, 4) == cudaErrorInvalidDevice);
  CHECK(host::contexts() == 0);
  CHECK(cudaSetDevice(2) == cudaSuccess);
  CHECK(host::contexts() == 1);
  std::size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(host::contexts() == 1);
  cudaGetLastError();
}

TEST_CASE_METHOD(HardwareFixture, "a thread chooses its device for itself, and streams are of one device") {
  host::set_hardware({.devices = 2});
  CHECK(cudaSetDevice(1) == cudaSuccess);
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  CHECK(cudaMemsetAsync(x, 0, 4, stream) == cudaSuccess);
  std::thread([&] {
    int device = -1;
    CHECK(cudaGetDevice(&device) == cudaSuccess);
    CHECK(device == 0);
    CHECK(cudaMemsetAsync(x, 0, 4, stream) == cudaErrorInvalidResourceHandle);
    CHECK(cudaSetDevice(1) == cudaSuccess);
    CHECK(cudaMemsetAsync(x, 0, 4, stream) == cudaSuccess);
  }).join();
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  cudaStreamDestroy(stream);
}

TEST_CASE_METHOD(HardwareFixture, "shared memory is as large as the device's") {
  const auto allowed = [](int capability, int kib) {
    host::set_hardware({.compute_capability = capability});
    const auto* const kernel = reinterpret_cast<const void*>(set);
    const bool all =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kib << 10) == cudaSuccess;
    const bool more = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           (kib << 10) + 1) == cudaSuccess;
    cudaGetLastError();
    return all && !more;
  };
  CHECK(allowed(80, 163));
  CHECK(allowed(86, 99));
  CHECK(allowed(89, 99));
  CHECK(allowed(90, 227));
  CHECK(allowed(100, 227));
  CHECK(allowed(120, 99));
}

TEST_CASE_METHOD(HardwareFixture, "a graph takes device memory by its nodes, and rows at most 2 GiB apart") {
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  run(a, set, x, 1.0f);
  run(a, set, x, 2.0f);
  REQUIRE(cudaStreamEndCapture(a, &graph) == cudaSuccess);
  std::size_t before = 0, after = 0, total = 0;
  cudaMemGetInfo(&before, &total);
  host::set_hardware({.node_bytes = 1000});
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph) == cudaSuccess);
  cudaMemGetInfo(&after, &total);
  CHECK(before - after == 2000);
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
  cudaMemGetInfo(&after, &total);
  CHECK(before == after);
  host::set_device_memory(static_cast<std::int64_t>(total - before + 1999));
  CHECK(cudaGraphInstantiate(&exec, graph) == cudaErrorMemoryAllocation);
  host::set_device_memory(std::int64_t{8} << 30);
  cudaGetLastError();
  cudaGraphDestroy(graph);

  const std::size_t far = std::size_t{1} << 31;
  CHECK(cudaMemcpy2DAsync(x, far, x + 1, 4, 4, 1, cudaMemcpyDefault, a) == cudaErrorInvalidValue);
  CHECK(cudaMemset2DAsync(x, far, 0, 4, 1, a) == cudaErrorInvalidValue);
  cudaGetLastError();
}

}  // namespace
}  // namespace titan::cuda
