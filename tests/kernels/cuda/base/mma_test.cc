// Matrix instructions and background copies on the host, against the layouts of the PTX ISA (sections on
// mma.m16n8k16, ldmatrix and cp.async) written down element by element.
#include "kernels/cuda/base/mma.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/base/bf16.h"

namespace titan::cuda {
namespace {

constexpr host::Schedule kSchedules[] = {
    {host::Order::forward, 0}, {host::Order::reverse, 0}, {host::Order::random, 1}, {host::Order::random, 2}};

/// Runs a block under every schedule, then f.
template <class F, class... Parameters, class... Arguments>
void in_all_orders(F f, void (*kernel)(Parameters...), int threads, Arguments... arguments) {
  for (const host::Schedule& schedule : kSchedules) {
    INFO("order " << static_cast<int>(schedule.order) << ", seed " << schedule.seed);
    host::set_schedule(schedule);
    launch(kernel, dim3(1), dim3(static_cast<unsigned>(threads)), 0, nullptr, arguments...);
    const cudaError_t error = cudaStreamSynchronize(nullptr);
    INFO(cudaGetErrorString(error));
    host::reset_device();
    REQUIRE(error == cudaSuccess);
    f();
  }
  host::set_schedule({});
}

std::vector<bf16> random_bf16(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<bf16> x(static_cast<std::size_t>(count));
  for (bf16& value : x) value = to_bf16(normal(random));
  return x;
}
double value(const std::vector<bf16>& x, int i) { return to_float(x[static_cast<std::size_t>(i)]); }

/// a·b + 1 in double.
double product(const std::vector<bf16>& a, const std::vector<bf16>& b, int row, int col) {
  double sum = 1;
  for (int k = 0; k < 16; ++k) sum += value(a, row * 16 + k) * value(b, k * 8 + col);
  return sum;
}

void store_product(const float (&d)[4], float* to) {
  const int group = static_cast<int>(threadIdx.x) / 4, in_group = static_cast<int>(threadIdx.x) % 4;
  for (int i = 0; i < 4; ++i) {
    const int row = i < 2 ? group : group + 8, col = in_group * 2 + (i & 1);
    to[row * 8 + col] = d[i];
  }
}

/// Elements a0..a7, b0..b3 and c0..c3 of each thread, where the ISA says they are.
__global__ void multiplies(const bf16* a, const bf16* b, float* d) {
  const int group = static_cast<int>(threadIdx.x) / 4, in_group = static_cast<int>(threadIdx.x) % 4;
  unsigned left[4] = {}, right[2] = {};
  for (int i = 0; i < 8; ++i) {
    const int row = (i >= 0 && i < 2) || (i >= 4 && i < 6) ? group : group + 8;
    const int col = i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
    left[i / 2] |= unsigned{a[row * 16 + col].bits} << 16 * (i % 2);
  }
  for (int i = 0; i < 4; ++i) {
    const int row = i < 2 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
    right[i / 2] |= unsigned{b[row * 8 + group].bits} << 16 * (i % 2);
  }
  float sum[4] = {1, 1, 1, 1};
  multiply_add(sum, left, right);
  store_product(sum, d);
}

TEST_CASE("mma.m16n8k16 is the product of fragments laid out as the ISA says") {
  const std::vector<bf16> a = random_bf16(16 * 16, 1), b = random_bf16(16 * 8, 2);
  std::vector<float> d(16 * 8);
  in_all_orders(
      [&] {
        for (int row = 0; row < 16; ++row)
          for (int col = 0; col < 8; ++col)
            CHECK(d[static_cast<std::size_t>(row * 8 + col)] ==
                  Approx(product(a, b, row, col)).epsilon(1e-5));
      },
      multiplies, 32, a.data(), b.data(), d.data());
}

/// Thread T's registers: of matrix i, row T / 4, elements 2·(T % 4) and the next; transposed: that column.
__global__ void loads(const bf16* from, unsigned* plain, unsigned* transposed) {
  TITAN_SHARED(uint4, rows, 32);
  const int lane = static_cast<int>(threadIdx.x);
  rows[lane] = load_vector<uint4>(from + lane * 8);
  __syncwarp();
  unsigned r[4];
  load_matrices(r, &rows[lane]);
  for (int i = 0; i < 4; ++i) plain[lane * 4 + i] = r[i];
  load_matrices_transposed(r, &rows[lane]);
  for (int i = 0; i < 4; ++i) transposed[lane * 4 + i] = r[i];
}

TEST_CASE("ldmatrix gives rows, or columns when transposed, to the lanes that the ISA names") {
  alignas(16) bf16 from[32 * 8];
  for (int i = 0; i < 32 * 8; ++i) from[i].bits = static_cast<std::uint16_t>(i);
  std::vector<unsigned> plain(128), transposed(128);
  in_all_orders(
      [&] {
        for (unsigned lane = 0; lane < 32; ++lane)
          for (unsigned i = 0; i < 4; ++i) {
            const unsigned matrix = i * 64, line = lane / 4, pair = lane % 4 * 2;
            const auto at = [&](unsigned row, unsigned col) { return matrix + row * 8 + col; };
            CHECK(plain[lane * 4 + i] == (at(line, pair) | at(line, pair + 1) << 16));
            CHECK(transposed[lane * 4 + i] == (at(pair, line) | at(pair + 1, line) << 16));
          }
      },
      loads, 32, static_cast<const bf16*>(from), plain.data(), transposed.data());
}

/// Row-major a and b through shared memory: a by rows, b [k][n] transposed.
__global__ void multiplies_from_shared(const bf16* a, const bf16* b, float* d) {
  TITAN_SHARED(uint4, left, 32);   // row r: 2 vectors
  TITAN_SHARED(uint4, right, 16);  // row k: 1 vector
  const int lane = static_cast<int>(threadIdx.x);
  copy_async(&left[lane], a + lane * 8, true);
  if (lane < 16) copy_async(&right[lane], b + lane * 8, true);
  copy_async_commit();
  copy_async_wait<0>();
  __syncwarp();
  unsigned x[4], y[4];
  load_matrices(x, &left[(lane % 16) * 2 + lane / 16]);
  load_matrices_transposed(y, &right[lane % 16]);
  float sum[4] = {1, 1, 1, 1};
  multiply_add(sum, x, {y[0], y[1]});
  store_product(sum, d);
}

TEST_CASE("copies, ldmatrix and mma together multiply row-major matrices") {
  struct alignas(16) Aligned {
    bf16 x[8];
  };
  const std::vector<bf16> a = random_bf16(16 * 16, 3), b = random_bf16(16 * 8, 4);
  std::vector<Aligned> left(32), right(16);
  std::memcpy(left.data(), a.data(), a.size() * 2);
  std::memcpy(right.data(), b.data(), b.size() * 2);
  std::vector<float> d(16 * 8);
  in_all_orders(
      [&] {
        for (int row = 0; row < 16; ++row)
          for (int col = 0; col < 8; ++col)
            CHECK(d[static_cast<std::size_t>(row * 8 + col)] ==
                  Approx(product(a, b, row, col)).epsilon(1e-5));
      },
      multiplies_from_shared, 32, left[0].x, right[0].x, d.data());
}

enum class Mistake { none, no_wait, waits_for_too_few, no_barrier, buffer_still_read };

/// y[i] = x[i] by way of two buffers of shared memory, four copies of 64 threads one after the other.
template <Mistake kMistake>
__global__ void pipelines(const float4* x, float4* y) {
  TITAN_SHARED(float4, buffer, 128);
  const int t = static_cast<int>(threadIdx.x);
  const auto copy = [&](int step) {
    if (step < 4) copy_async(&buffer[step % 2 * 64 + t], x + step * 64 + t, step != 2);
    copy_async_commit();
  };
  copy(0);
  copy(1);
  for (int step = 0; step < 4; ++step) {
    if constexpr (kMistake == Mistake::waits_for_too_few)
      copy_async_wait<2>();
    else if constexpr (kMistake != Mistake::no_wait)
      copy_async_wait<1>();
    if constexpr (kMistake != Mistake::no_barrier) __syncthreads();
    y[step * 64 + t] = buffer[step % 2 * 64 + 63 - t];
    if constexpr (kMistake != Mistake::buffer_still_read) __syncthreads();
    copy(step + 2);
  }
}

/// Whether the result was right in all orders.
template <Mistake kMistake>
bool pipeline_is_right() {
  std::vector<float4> x(256), y(256);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = {static_cast<float>(i), 1, 2, 3};
  bool right = true;
  in_all_orders(
      [&] {
        for (std::size_t i = 0; i < y.size(); ++i) {
          const std::size_t from = i / 64 * 64 + 63 - i % 64;
          const bool zero = i / 64 == 2;
          right =
              right && y[i].x == (zero ? 0.0f : static_cast<float>(from)) && y[i].w == (zero ? 0.0f : 3.0f);
        }
      },
      pipelines<kMistake>, 64, x.data(), y.data());
  return right;
}

TEST_CASE("background copies arrive when they are waited for, and mistakes show") {
  CHECK(pipeline_is_right<Mistake::none>());
  CHECK(!pipeline_is_right<Mistake::no_wait>());
  CHECK(!pipeline_is_right<Mistake::waits_for_too_few>());
  CHECK(!pipeline_is_right<Mistake::no_barrier>());
  CHECK(!pipeline_is_right<Mistake::buffer_still_read>());
}

__global__ void loads_misaligned(const bf16* from, unsigned* to) {
  unsigned r[4];
  load_matrices(r, from + 1);
  to[threadIdx.x] = r[0];
}

TEST_CASE("rows of matrices must be aligned") {
  alignas(16) bf16 from[16] = {};
  unsigned to[32];
  launch(loads_misaligned, dim3(1), dim3(32), 0, nullptr, from, to);
  const cudaError_t error = cudaStreamSynchronize(nullptr);
  CHECK_THAT(cudaGetErrorString(error), Catch::Contains("misaligned access"));
  host::reset_device();
}

}  // namespace
}  // namespace titan::cuda
