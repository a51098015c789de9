// The host's grid: right kernels are right in every order, and each planted mistake is caught.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/cuda/dialect.h"

namespace titan::cuda {
namespace {

using Catch::Contains;
using host::KernelError;
using host::Order;

constexpr host::Schedule kSchedules[] = {
    {Order::forward, 0}, {Order::reverse, 0}, {Order::random, 1}, {Order::random, 2}, {Order::random, 3}};

/// Launches and waits. Throws what went wrong in the kernel, and forgets it.
template <class Kernel, class... Arguments>
void run_kernel(Kernel kernel, dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream,
                Arguments... arguments) {
  launch(kernel, grid, block, shared, stream, arguments...);
  const cudaError_t error = cudaStreamSynchronize(stream);
  const std::string what = cudaGetErrorString(error);
  host::reset_device();
  if (error != cudaSuccess) throw KernelError(what);
}

/// Runs f under every schedule.
template <class F>
void in_all_orders(F f) {
  for (const host::Schedule& schedule : kSchedules) {
    INFO("order " << static_cast<int>(schedule.order) << ", seed " << schedule.seed);
    host::set_schedule(schedule);
    f();
  }
  host::set_schedule({});
}

/// sums[block] = the sum of the block's 2·blockDim values: through shared memory, then shuffles.
__global__ void block_sum(const float* x, float* sums) {
  TITAN_SHARED(float, part, 256);
  const unsigned t = threadIdx.x, size = blockDim.x, base = blockIdx.x * 2 * size;
  part[t] = x[base + t] + x[base + size + t];
  __syncthreads();
  for (unsigned half = size / 2; half >= 32; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t >= 32) return;
  float sum = part[t];
  for (int bits = 16; bits > 0; bits /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, bits);
  if (t == 0) sums[blockIdx.x] = sum;
}

/// The same without the first barrier.
__global__ void block_sum_without_barrier(const float* x, float* sums) {
  TITAN_SHARED(float, part, 256);
  const unsigned t = threadIdx.x;
  part[t] = x[blockIdx.x * blockDim.x + t];
  if (t != 0) return;
  float sum = 0;
  for (unsigned i = 0; i < blockDim.x; ++i) sum += part[i];
  sums[blockIdx.x] = sum;
}

__global__ void reads_before_writing(float* y) {
  TITAN_SHARED(float, part, 32);
  y[threadIdx.x] = part[threadIdx.x];
}

__global__ void divergent_barrier(int* y) {
  if (threadIdx.x < 16)
    __syncthreads();
  else
    __syncthreads();
  y[threadIdx.x] = 1;
}

__global__ void barrier_after_leaving(int* y) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
  y[threadIdx.x] = 1;
}

__global__ void shuffle_with_a_lane_that_left(int* y) {
  if (threadIdx.x == 7) return;
  y[threadIdx.x] = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x), 0);
}

__global__ void shuffle_that_only_some_reach(int* y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x), 0);
  __syncthreads();
}

__global__ void half_warps(int* y) {
  const int t = static_cast<int>(threadIdx.x);
  if (t < 16)
    y[t] = __shfl_sync(0x0000ffffu, t, 3);
  else
    y[t] = __shfl_sync(0xffff0000u, t, 19);
}

__global__ void reads_vectors(const float* x, float* y) {
  const float4 v = load_vector<float4>(x + threadIdx.x);  // wrong: a float apart
  y[threadIdx.x] = v.x;
}

__global__ void uses_dynamic_shared(int* y) {
  int* const all = dynamic_shared<int>();
  all[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  y[blockIdx.x * blockDim.x + threadIdx.x] = all[blockDim.x - 1 - threadIdx.x];
}

__global__ void counts(unsigned* count, unsigned* most, unsigned* votes) {
  atomicAdd(count, 1u);
  atomicMax(most, blockIdx.x * blockDim.x + threadIdx.x);
  const unsigned odd = __ballot_sync(0xffffffffu, threadIdx.x % 2);
  if (threadIdx.x == 0) votes[blockIdx.x] = odd;
}

__global__ void too_much_static() {
  TITAN_SHARED(float, big, 13 * 1024);
  big[threadIdx.x] = 1;
}

__global__ void static_and_dynamic(int* y) {
  TITAN_SHARED(int, own, 32);
  own[threadIdx.x] = static_cast<int>(threadIdx.x);
  y[threadIdx.x] = own[threadIdx.x];
}

__global__ void counts_on_32_bytes() {
  TITAN_SHARED(char, bytes, 64);
  load_vector<int4>(bytes);
  host::check_aligned(bytes, 32);
}

TEST_CASE("a sum over blocks is right in every order, and the same bits") {
  constexpr int kBlocks = 7, kThreads = 256;
  std::vector<float> x(kBlocks * kThreads * 2);
  std::iota(x.begin(), x.end(), 0.25f);
  std::vector<float> first;
  in_all_orders([&] {
    std::vector<float> sums(kBlocks, -1);
    run_kernel(block_sum, dim3(kBlocks), dim3(kThreads), 0, nullptr, x.data(), sums.data());
    for (int b = 0; b < kBlocks; ++b) {
      double want = 0;
      for (int i = 0; i < 2 * kThreads; ++i) want += x[static_cast<std::size_t>(b * 2 * kThreads + i)];
      CHECK(sums[static_cast<std::size_t>(b)] == Approx(want));
    }
    if (first.empty()) first = sums;
    CHECK(sums == first);
  });
}

TEST_CASE("a missing barrier gives a wrong number in one of the orders") {
  const std::vector<float> x(64, 1);
  bool wrong = false;
  in_all_orders([&] {
    std::vector<float> sums(1);
    run_kernel(block_sum_without_barrier, dim3(1), dim3(64), 0, nullptr, x.data(), sums.data());
    wrong = wrong || !(sums[0] == 64);
  });
  CHECK(wrong);
}

TEST_CASE("shared memory starts as NaN, in every block anew") {
  std::vector<float> y(32, 0);
  for (int i = 0; i < 2; ++i) {
    run_kernel(reads_before_writing, dim3(1), dim3(32), 0, nullptr, y.data());
    for (const float v : y) CHECK(std::isnan(v));
  }
}

TEST_CASE("divergent barriers and collectives are named with their places") {
  std::vector<int> y(64);
  in_all_orders([&] {
    CHECK_THROWS_WITH(run_kernel(divergent_barrier, dim3(1), dim3(32), 0, nullptr, y.data()),
                      Contains("divergent barrier") && Contains("grid_test.cc:"));
    CHECK_THROWS_WITH(run_kernel(shuffle_with_a_lane_that_left, dim3(1), dim3(32), 0, nullptr, y.data()),
                      Contains("lane 7 is in the mask"));
    CHECK_THROWS_WITH(run_kernel(shuffle_with_a_lane_that_left, dim3(1), dim3(20), 0, nullptr, y.data()),
                      Contains("has ended or never was"));
    CHECK_THROWS_WITH(run_kernel(shuffle_that_only_some_reach, dim3(1), dim3(32), 0, nullptr, y.data()),
                      Contains("deadlock"));
  });
}

TEST_CASE("threads that have ended do not hold a barrier up") {
  std::vector<int> y(64, 0);
  in_all_orders([&] { run_kernel(barrier_after_leaving, dim3(1), dim3(64), 0, nullptr, y.data()); });
  CHECK(std::accumulate(y.begin(), y.end(), 0) == 40);
}

TEST_CASE("parts of a warp exchange apart from each other") {
  std::vector<int> y(32);
  in_all_orders([&] {
    run_kernel(half_warps, dim3(1), dim3(32), 0, nullptr, y.data());
    for (int t = 0; t < 32; ++t) CHECK(y[static_cast<std::size_t>(t)] == (t < 16 ? 3 : 19));
  });
}

TEST_CASE("misaligned vectors are caught") {
  alignas(16) float x[64] = {};
  std::vector<float> y(32);
  CHECK_THROWS_WITH(
      run_kernel(reads_vectors, dim3(1), dim3(32), 0, nullptr, x, y.data()),
      Contains("misaligned access") && Contains("no multiple of 16") && Contains("thread 1 of 32"));
}

TEST_CASE("launches that no GPU takes are refused") {
  std::vector<int> y(2048);
  const auto launch_with = [&](dim3 grid, dim3 block, std::size_t shared) {
    run_kernel(uses_dynamic_shared, grid, block, shared, nullptr, y.data());
  };
  CHECK_THROWS_WITH(launch_with(dim3(1), dim3(1025), 0), Contains("at most 1024 threads"));
  CHECK_THROWS_WITH(launch_with(dim3(1), dim3(1, 1, 65), 0), Contains("64 in z"));
  CHECK_THROWS_WITH(launch_with(dim3(1, 65536), dim3(32), 0), Contains("65535"));
  CHECK_THROWS_WITH(launch_with(dim3(0), dim3(32), 0), Contains("nothing to launch"));
  CHECK_THROWS_WITH(launch_with(dim3(1), dim3(32), 233000), Contains("shared memory"));
  CHECK_THROWS_WITH(run_kernel(too_much_static, dim3(1), dim3(32), 0, nullptr),
                    Contains("static shared memory"));
  CHECK_THROWS_WITH(run_kernel(counts_on_32_bytes, dim3(1), dim3(1), 0, nullptr), Contains("multiple of 32"));
  CHECK_THROWS_WITH(host::barrier(), Contains("outside a kernel"));
  launch_with(dim3(2), dim3(1024), 4096);
  for (int i = 0; i < 1024; ++i) CHECK(y[static_cast<std::size_t>(i)] == 1023 - i);
}

TEST_CASE("more than 48 KiB of shared memory, static arrays included, must be asked for") {
  std::vector<int> y(32);
  const auto launch_with = [&](std::size_t bytes, std::size_t asked) {
    host::launch(dim3(1), dim3(32), {bytes, asked}, [&] { static_and_dynamic(y.data()); });
  };
  CHECK_NOTHROW(launch_with(host::kUnaskedShared - 128, 0));
  CHECK_THROWS_WITH(launch_with(host::kUnaskedShared, 0), Contains("must be asked for"));
  CHECK_NOTHROW(launch_with(host::kUnaskedShared, host::kUnaskedShared));
  CHECK_THROWS_WITH(launch_with(host::kUnaskedShared + 1, 0), Contains("0 asked for"));
  CHECK_THROWS_WITH(launch_with(227 << 10, 227 << 10), Contains("together"));
  run_kernel(static_and_dynamic, dim3(1), dim3(32), host::kUnaskedShared, nullptr, y.data());  // asks
  CHECK(y[31] == 31);
}

#ifdef __SANITIZE_ADDRESS__
__global__ void writes_behind_shared() {
  TITAN_SHARED(float, small, 32);
  small[threadIdx.x + 1] = 1;
}
__global__ void writes_behind_global(float* y) { y[threadIdx.x + 1] = 1; }

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

TEST_CASE("AddressSanitizer watches shared and global memory, an array each") {
  CHECK(ends_the_process([] { run_kernel(writes_behind_shared, dim3(1), dim3(32), 0, nullptr); }));
  CHECK(ends_the_process([] {
    std::vector<float> y(32);
    run_kernel(writes_behind_global, dim3(1), dim3(32), 0, nullptr, y.data());
  }));
  CHECK(!ends_the_process([] {
    std::vector<float> y(33);
    run_kernel(writes_behind_global, dim3(1), dim3(32), 0, nullptr, y.data());
  }));
}
#endif

TEST_CASE("integer atomics and votes") {
  in_all_orders([&] {
    unsigned count = 0, most = 0;
    std::vector<unsigned> votes(5);
    run_kernel(counts, dim3(5), dim3(32), 0, nullptr, &count, &most, votes.data());
    CHECK(count == 160);
    CHECK(most == 159);
    for (const unsigned v : votes) CHECK(v == 0xaaaaaaaau);
  });
}

}  // namespace
}  // namespace titan::cuda
