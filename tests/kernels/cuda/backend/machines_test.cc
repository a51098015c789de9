// The CUDA backend on machines that lack something: a driver, kernels, memory; and on those with more GPUs.
#include <catch2/catch.hpp>
#include <thread>

#include "kernels/base/error.h"
#include "kernels/cuda/backend/cuda_backend.h"
#include "kernels/cuda/backend/devices.h"
#include "kernels/cuda/base/check.h"
#include "kernels/cuda/host/streams.h"
#include "tests/support/commands.h"

namespace titan::cuda {
namespace {

using Catch::Contains;
using test::CommandList;
using test::operand;

constexpr std::int64_t kN = 1000;

class MachinesFixture {
 public:
  MachinesFixture() { host::reset_device(); }
  ~MachinesFixture() {
    host::set_hardware({});
    host::set_device_memory(std::int64_t{8} << 30);
    host::reset_device();
  }
};

/// Doubles a number in device memory, as often as it runs.
class Doubling {
 public:
  explicit Doubling(Backend& backend)
      : backend_(backend), memory_(backend.allocate(Space::device, kN * 4)), list_({memory_}) {
    const float one = 1;
    backend.upload(&one, memory_ + (kN - 1) * 4, sizeof one);
    list_.add(0, Add{.a = operand<In>(0, DType::f32, 1, kN),
                     .b = operand<In>(0, DType::f32, 1, kN),
                     .y = operand<Out>(0, DType::f32, 1, kN)});
  }
  float run() {
    backend_.execute(list_.commands(), nullptr, {});
    float x = 0;
    backend_.download(memory_ + (kN - 1) * 4, &x, sizeof x);
    return x;
  }

 private:
  Backend& backend_;
  std::byte* memory_;
  CommandList list_;
};

TEST_CASE_METHOD(MachinesFixture, "why CUDA cannot be used is one sentence") {
  host::set_hardware({.devices = 0});
  CHECK_THROWS_WITH(cuda_devices(), "the driver sees no GPU (CUDA_VISIBLE_DEVICES may hide them)");
  CHECK_THROWS_AS(make_cuda_backend({}), UserError);
  host::set_hardware({.fault = cudaErrorInsufficientDriver, .driver_version = 12040});
  CHECK_THROWS_WITH(
      cuda_devices(),
      "the NVIDIA driver is for CUDA 12.4, and titan is built for CUDA 13.0: update the driver");
  host::set_hardware({.fault = cudaErrorInsufficientDriver, .driver_version = 0});
  CHECK_THROWS_WITH(cuda_devices(), Contains("the NVIDIA driver does not run"));
  host::set_hardware({.fault = cudaErrorDevicesUnavailable});
  CHECK_THROWS_WITH(make_cuda_backend({}), Contains("the GPU is taken"));
  host::set_hardware({.compute_capability = 75, .has_kernels = false});
  CHECK_THROWS_WITH(
      make_cuda_backend({}),
      Contains("no kernels for CUDA on the host, compute capability 7.5") && Contains("TITAN_CUDA_FOR"));
  CHECK_THROWS_AS(cuda_memory(0), UserError);
  host::set_hardware({});
  CHECK_NOTHROW(make_cuda_backend({}));
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK_THROWS_WITH(make_cuda_backend({.device = 1}), "there is no CUDA device 1: this machine has 1");
}

TEST_CASE_METHOD(MachinesFixture, "asking for the devices takes memory on none of them") {
  host::set_hardware({.devices = 8});
  CHECK(cuda_devices().size() == 8);
  CHECK(host::contexts() == 0);
  const auto backend = make_cuda_backend({.device = 3});
  CHECK(host::contexts() == 1);
  CHECK(cuda_memory(3).free_bytes > 0);
  CHECK(host::contexts() == 1);
}

TEST_CASE_METHOD(MachinesFixture, "every thread that calls a backend uses the backend's device") {
  host::set_hardware({.devices = 2});
  const auto backend = make_cuda_backend({.device = 1});
  Doubling doubling(*backend);
  for (const float want : {2.0f, 4.0f, 8.0f}) {
    float got = 0;
    std::thread([&] { got = doubling.run(); }).join();
    CHECK(got == want);
  }
  CHECK(host::contexts() == 1);
}

TEST_CASE_METHOD(MachinesFixture, "without memory for a graph a list runs eagerly, and right") {
  host::set_hardware({.node_bytes = 1 << 20});
  host::set_device_memory(1 << 20);
  const auto backend = make_cuda_backend({});
  Doubling doubling(*backend);
  for (const float want : {2.0f, 4.0f, 8.0f, 16.0f}) CHECK(doubling.run() == want);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE_METHOD(MachinesFixture, "a graph's memory is seen beside what was allocated") {
  host::set_hardware({.node_bytes = 1 << 20});
  const auto backend = make_cuda_backend({});
  Doubling doubling(*backend);
  doubling.run();
  const titan::DeviceMemory before = backend->device_memory();
  doubling.run();
  const titan::DeviceMemory after = backend->device_memory();
  CHECK(before.free_bytes - after.free_bytes == 1 << 20);
  CHECK(after.total_bytes == std::int64_t{8} << 30);
}

/// c [16, 16] f32 of e4m3, by one factor each or one a row.
std::string error_of_product(int compute_capability, std::int64_t factors) {
  constexpr std::int64_t kSize = 16;
  host::set_hardware({.compute_capability = compute_capability});
  const auto backend = make_cuda_backend({});
  const auto bytes = [&](std::int64_t count) { return backend->allocate(Space::device, count); };
  CommandList list({bytes(256), bytes(256), bytes(1024), bytes(64), bytes(64)});
  list.add(0, Gemm{.a = operand<In>(0, DType::f8e4m3, kSize, kSize),
                   .b = operand<In>(1, DType::f8e4m3, kSize, kSize),
                   .c = operand<Result>(2, DType::f32, kSize, kSize),
                   .workspace = {},
                   .transpose_b = true,
                   .scale_a = operand<In>(3, DType::f32, factors, 1),
                   .scale_b = operand<In>(4, DType::f32, factors, 1)});
  try {
    backend->execute(list.commands(), nullptr, {});
    return "";
  } catch (const CommandError& error) {
    return error.what();
  }
}

TEST_CASE_METHOD(MachinesFixture, "8-bit products that a GPU does not have are refused with what to do") {
  CHECK(error_of_product(90, 1).empty());
  CHECK(error_of_product(90, 16).empty());
  CHECK(error_of_product(89, 1).empty());
  CHECK(error_of_product(100, 1).empty());
  CHECK_THAT(error_of_product(80, 1),
             Contains("compute capability 8.9 or newer") && Contains("capability 8.0"));
  CHECK_THAT(error_of_product(100, 16), Contains("Hopper") && Contains("recipe_name = \"tensorwise\""));
}

/// Forward and backward of one sequence of 80 rows.
void attend(Backend& backend, DType dtype, int head_dim) {
  constexpr std::int64_t kRows = 80;
  const std::int64_t cols = head_dim;
  std::vector<std::byte*> at;
  const auto value = [&](std::int64_t bytes) {
    at.push_back(backend.allocate(Space::device, bytes));
    return static_cast<ValueId>(at.size() - 1);
  };
  const auto matrix = [&] { return value(kRows * cols * size_of(dtype)); };
  const ValueId q = matrix(), k = matrix(), v = matrix(), out = matrix(), dout = matrix(), dq = matrix(),
                dk = matrix(), dv = matrix(), column = value(kRows * 4), lse = value(kRows * 4);
  const auto in = [&](ValueId id) { return operand<In>(id, dtype, kRows, cols); };
  const auto result = [&](ValueId id) { return operand<Result>(id, dtype, kRows, cols); };
  const In positions = operand<In>(column, DType::i32, kRows, 1),
           numbers = operand<In>(lse, DType::f32, kRows, 1);
  const AttentionShape shape{.sequences = 1, .heads = 1, .kv_heads = 1, .head_dim = head_dim, .scale = 0.1f};
  CommandList list(at);
  list.add(0, Iota{.y = operand<Out>(column, DType::i32, kRows, 1)});
  list.add(0, Attention{.q = in(q),
                        .k = in(k),
                        .v = in(v),
                        .q_position = positions,
                        .k_position = positions,
                        .doc_start = positions,
                        .kv_length = {},
                        .out = operand<Out>(out, dtype, kRows, cols),
                        .lse = operand<Out>(lse, DType::f32, kRows, 1),
                        .shape = shape});
  list.add(0, AttentionGrad{.dout = in(dout),
                            .q = in(q),
                            .k = in(k),
                            .v = in(v),
                            .lse = numbers,
                            .delta = numbers,
                            .q_position = positions,
                            .k_position = positions,
                            .doc_start = positions,
                            .dq = result(dq),
                            .dk = result(dk),
                            .dv = result(dv),
                            .shape = shape});
  backend.execute(list.commands(), nullptr, {});
}

TEST_CASE_METHOD(MachinesFixture, "attention finds the shared memory that it needs on every GPU") {
  for (const int capability : {80, 86, 89, 90, 100, 120}) {
    INFO("compute capability " << capability);
    host::set_hardware({.compute_capability = capability});
    const auto backend = make_cuda_backend({});
    for (const int head_dim : {64, 128}) CHECK_NOTHROW(attend(*backend, DType::bf16, head_dim));
    for (const int head_dim : {64, 128, 256}) CHECK_NOTHROW(attend(*backend, DType::f32, head_dim));
  }
}

}  // namespace
}  // namespace titan::cuda
