// Hopper's barriers, TMA and wgmma on the host, against the PTX ISA written down element by element, and the
// mistakes that a kernel can make with them: each must show.
#include "kernels/cuda/base/hopper.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/base/bf16.h"
#include "kernels/cuda/base/check.h"

namespace titan::cuda {
namespace {

constexpr host::Schedule kSchedules[] = {
    {host::Order::forward, 0}, {host::Order::reverse, 0}, {host::Order::random, 1}, {host::Order::random, 2}};

constexpr int kRows = 64, kDepth = 64, kCols = 128, kRounds = 3;

enum class Mistake {
  none,
  no_wait_for_bytes,
  expects_too_much,
  expects_too_little,
  refills_too_early,
  no_fence,
  no_wait_for_product,
  factor_overwritten,
  wrong_stride,
  wrong_address,
  no_barrier_init,
  barrier_init_twice,
  barriers_not_published,
  tile_comes_too_late,
  one_warp_releases,
  group_diverges,
};

struct Maps {
  CUtensorMap a, b, c;
};

/// scores [round][64 × 128] = a · b(round)ᵀ, sums [round][64 × 64] += bf16(scores) · c; a [64 × 64], b(round)
/// [128 × 64], c [128 × 64], by one warp group; a thread of another brings b(round), one at a time into one
/// buffer.
template <Mistake kMistake>
__global__ void multiplies(const __grid_constant__ Maps maps, float* scores, float* sums) {
  TITAN_SHARED(std::uint64_t, barriers, 2);
  std::uint64_t *const full = &barriers[0], *const empty = &barriers[1];
  const auto start = reinterpret_cast<std::uintptr_t>(dynamic_shared<std::byte>());
  bf16* const a = reinterpret_cast<bf16*>((start + kSwizzleBytes - 1) / kSwizzleBytes * kSwizzleBytes);
  bf16 *const b = a + kRows * kDepth, *const c = b + kCols * kDepth;
  const int t = static_cast<int>(threadIdx.x);
  constexpr unsigned kReleases = kMistake == Mistake::one_warp_releases ? 1 : kWarpGroup / 32;
  if (t == 0 && kMistake != Mistake::no_barrier_init) {
    init_barrier(full, 1);
    init_barrier(empty, kReleases);
    if (kMistake == Mistake::barrier_init_twice) init_barrier(full, 1);
    if (kMistake != Mistake::barriers_not_published) publish_barriers();
  }
  __syncthreads();
  if (t == kWarpGroup) {
    constexpr int kWrong = kMistake == Mistake::expects_too_much     ? 16
                           : kMistake == Mistake::expects_too_little ? -16
                                                                     : 0;
    for (int round = 0; round < kRounds; ++round) {
      if (kMistake != Mistake::refills_too_early) wait_parity(empty, (round & 1) ^ 1);
      const int bytes = (kCols + (round == 0 ? kRows + kCols : 0)) * 128 + kWrong;
      arrive_expecting(full, static_cast<unsigned>(bytes));
      if (round == 0) load_box(maps.a, 0, 0, 0, a, full);
      load_box(maps.b, 0, 0, round, b, full);
      if (round == 0) load_box(maps.c, 0, 0, 0, c, full);
    }
  }
  if (t >= kWarpGroup) return;
  float sum[8][4] = {};
  for (int round = 0; round < kRounds; ++round) {
    if (kMistake != Mistake::no_wait_for_bytes && kMistake != Mistake::tile_comes_too_late)
      wait_parity(full, round & 1);
    float score[16][4];
    if (kMistake != Mistake::no_fence) fence_group();
    const unsigned from = descriptor_address(a), to = descriptor_address(b);
    const unsigned stride = kMistake == Mistake::wrong_stride ? 512 : kSwizzleBytes;
    for (unsigned k = 0; k < kDepth / 16; ++k)
      multiply_group(score, descriptor(from + k * 32, 16, kSwizzleBytes),
                     descriptor(to + k * (kMistake == Mistake::wrong_address ? 16 : 32), 16, stride), k > 0);
    if (kMistake == Mistake::group_diverges && t >= 64)
      multiply_group(score, descriptor(from, 16, kSwizzleBytes), descriptor(to, 16, stride), true);
    else if (kMistake == Mistake::group_diverges)
      multiply_group(score, descriptor(from, 16, kSwizzleBytes), descriptor(to, 16, stride), true);
    commit_group();
    if (kMistake == Mistake::tile_comes_too_late) wait_parity(full, round & 1);
    if (kMistake != Mistake::no_wait_for_product) wait_group<0>();
    unsigned factors[8][4];
    for (int k = 0; k < 8; ++k)
      for (int i = 0; i < 4; ++i) {
        const float(&pair)[4] = score[2 * k + i / 2];
        factors[k][i] = to_bf16(pair[i % 2 * 2]).bits | unsigned{to_bf16(pair[i % 2 * 2 + 1]).bits} << 16;
      }
    for (int n = 0; n < 16; ++n)
      for (int i = 0; i < 4; ++i) {
        const int row = t / 32 * 16 + t % 32 / 4 + i / 2 * 8, col = n * 8 + t % 4 * 2 + i % 2;
        scores[(round * kRows + row) * kCols + col] = score[n][i];
      }
    if (kMistake == Mistake::one_warp_releases ? t == 0 : t % 32 == 0) arrive(empty);
    fence_group();
    const unsigned values = descriptor_address(c);
    for (unsigned k = 0; k < 8; ++k)
      multiply_group(sum, factors[k], descriptor(values + k * 2 * kSwizzleBytes, kCols * 128, kSwizzleBytes));
    commit_group();
    if (kMistake == Mistake::factor_overwritten) factors[3][1] = 0;
    wait_group<0>();
    for (int n = 0; n < 8; ++n)
      for (int i = 0; i < 4; ++i) {
        const int row = t / 32 * 16 + t % 32 / 4 + i / 2 * 8, col = n * 8 + t % 4 * 2 + i % 2;
        sums[(round * kRows + row) * 64 + col] = sum[n][i];
      }
  }
}

struct alignas(16) Matrix {
  int rows, cols;
  std::vector<bf16> x;
  Matrix(int r, int c, unsigned seed) : rows(r), cols(c), x(static_cast<std::size_t>(r * c)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (bf16& value : x) value = to_bf16(normal(random));
  }
  double operator()(int r, int c) const { return to_float(x[static_cast<std::size_t>(r * cols + c)]); }
  CUtensorMap map(int box_rows, int depth) const {
    const std::int64_t height = rows / depth;
    return make_tensor_map({x.data(), cols, height, depth, cols * 2, height * cols * 2, box_rows});
  }
};

struct Outcome {
  bool right = true;       ///< all numbers, in all schedules
  std::string error = {};  ///< of the first schedule that had one
};

template <Mistake kMistake>
Outcome outcome() {
  const Matrix a(kRows, kDepth, 1), b(kRounds * kCols, kDepth, 2), c(kCols, 64, 3);
  std::vector<float> scores(kRounds * kRows * kCols), sums(kRounds * kRows * 64);
  const Maps maps{a.map(kRows, 1), b.map(kCols, kRounds), c.map(kCols, 1)};
  Outcome result;
  for (const host::Schedule& schedule : kSchedules) {
    host::set_schedule(schedule);
    launch(multiplies<kMistake>, dim3(1), dim3(2 * kWarpGroup), 60 << 10, nullptr, maps, scores.data(),
           sums.data());
    const cudaError_t error = cudaStreamSynchronize(nullptr);
    if (error != cudaSuccess && result.error.empty()) result.error = cudaGetErrorString(error);
    host::reset_device();
    if (error != cudaSuccess) continue;
    std::vector<double> total(kRows * 64);
    for (int round = 0; round < kRounds; ++round)
      for (int row = 0; row < kRows; ++row) {
        double score[kCols];
        for (int col = 0; col < kCols; ++col) {
          score[col] = 0;
          for (int k = 0; k < kDepth; ++k) score[col] += a(row, k) * b(round * kCols + col, k);
          const float got = scores[static_cast<std::size_t>((round * kRows + row) * kCols + col)];
          result.right = result.right && std::abs(got - score[col]) < 1e-4;
          score[col] = to_float(to_bf16(got));
        }
        for (int col = 0; col < 64; ++col) {
          double& sum = total[static_cast<std::size_t>(row * 64 + col)];
          for (int k = 0; k < kCols; ++k) sum += score[k] * c(k, col);
          const float got = sums[static_cast<std::size_t>((round * kRows + row) * 64 + col)];
          result.right = result.right && std::abs(got - sum) < 1e-2;
        }
      }
  }
  host::set_schedule({});
  return result;
}

TEST_CASE("TMA, barriers and products of warp groups together multiply matrices") {
  const Outcome result = outcome<Mistake::none>();
  CHECK(result.error == "");
  CHECK(result.right);
}

TEST_CASE("mistakes with Hopper's instructions show") {
  const auto wrong = [](const Outcome& o) { return o.error.empty() && !o.right; };
  const Outcome too_early = outcome<Mistake::no_wait_for_product>();
  CHECK((!too_early.right || too_early.error != ""));
  CHECK(wrong(outcome<Mistake::wrong_stride>()));
  CHECK(wrong(outcome<Mistake::wrong_address>()));
  const Outcome early = outcome<Mistake::refills_too_early>();
  CHECK((wrong(early) || early.error != ""));
  const Outcome no_wait = outcome<Mistake::no_wait_for_bytes>();
  CHECK((wrong(no_wait) || no_wait.error != ""));
  CHECK_THAT(outcome<Mistake::no_fence>().error, Catch::Contains("without a wgmma.fence"));
  CHECK_THAT(outcome<Mistake::factor_overwritten>().error, Catch::Contains("has changed"));
  CHECK_THAT(outcome<Mistake::tile_comes_too_late>().error, Catch::Contains("has changed"));
  CHECK_THAT(outcome<Mistake::one_warp_releases>().error, Catch::Contains("has changed"));
  CHECK_THAT(outcome<Mistake::barrier_init_twice>().error, Catch::Contains("initialised twice"));
  CHECK_THAT(outcome<Mistake::barriers_not_published>().error, Catch::Contains("no fence has published"));
  CHECK_THAT(outcome<Mistake::no_barrier_init>().error, Catch::Contains("nobody has initialised"));
  CHECK_THAT(outcome<Mistake::expects_too_much>().error,
             Catch::Contains("deadlock") && Catch::Contains("lacks 0 arrivals and 16 bytes"));
  CHECK_THAT(outcome<Mistake::expects_too_little>().error,
             Catch::Contains("deadlock") && Catch::Contains("16 bytes too many have come"));
  CHECK_THAT(outcome<Mistake::group_diverges>().error, Catch::Contains("different places"));
}

/// A warp's numbers go to the group's others through shared memory, beside a product.
template <bool kBarrier>
__global__ void hands_over(float* y) {
  TITAN_SHARED(float, numbers, kWarpGroup);
  const auto start = reinterpret_cast<std::uintptr_t>(dynamic_shared<std::byte>());
  const unsigned a = descriptor_address(
      reinterpret_cast<std::byte*>((start + kSwizzleBytes - 1) / kSwizzleBytes * kSwizzleBytes));
  const int t = static_cast<int>(threadIdx.x);
  float d[8][4] = {};
  numbers[t] = static_cast<float>(t);
  if (kBarrier) group_barrier(1);
  fence_group();
  multiply_group(d, descriptor(a, 16, kSwizzleBytes), descriptor(a, 16, kSwizzleBytes), false);
  const float other = numbers[kWarpGroup - 1 - t];
  commit_group();
  wait_group<0>();
  y[t] = other;
}

TEST_CASE("products do not order what warps of a group do to shared memory") {
  const auto right = [](void (*kernel)(float*)) {
    bool all = true;
    for (const host::Schedule& schedule : kSchedules) {
      host::set_schedule(schedule);
      std::vector<float> y(kWarpGroup, -1);
      launch(kernel, dim3(1), dim3(kWarpGroup), 10 << 10, nullptr, y.data());
      REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
      for (int t = 0; t < kWarpGroup; ++t)
        all = all && y[static_cast<std::size_t>(t)] == static_cast<float>(kWarpGroup - 1 - t);
    }
    host::set_schedule({});
    return all;
  };
  CHECK(right(hands_over<true>));
  CHECK_FALSE(right(hands_over<false>));
}

/// A group gives registers to two others; then those meet at a barrier of their own.
template <int kGiven, int kTaken, int kNumber>
__global__ void shares_registers(int* y) {
  TITAN_SHARED(int, values, 2 * kWarpGroup);
  const int t = static_cast<int>(threadIdx.x), group = t / kWarpGroup;
  if (group == 2) return give_registers<kGiven>();
  take_registers<kTaken>();
  values[t] = t;
  group_barrier(kNumber + group);
  y[t] = values[group * kWarpGroup + kWarpGroup - 1 - t % kWarpGroup];
}

template <int kGiven, int kTaken, int kNumber>
std::string sharing_error() {
  std::vector<int> y(2 * kWarpGroup, -1);
  std::string error;
  for (const host::Schedule& schedule : kSchedules) {
    host::set_schedule(schedule);
    launch(shares_registers<kGiven, kTaken, kNumber>, dim3(1), dim3(3 * kWarpGroup), 0, nullptr, y.data());
    const cudaError_t result = cudaStreamSynchronize(nullptr);
    if (result != cudaSuccess) error = cudaGetErrorString(result);
    host::reset_device();
    for (int t = 0; t < 2 * kWarpGroup && result == cudaSuccess; ++t)
      CHECK(y[static_cast<std::size_t>(t)] == t / kWarpGroup * kWarpGroup + kWarpGroup - 1 - t % kWarpGroup);
  }
  host::set_schedule({});
  return error;
}

TEST_CASE("warp groups share registers and have barriers of their own") {
  CHECK(sharing_error<24, 240, 1>() == "");
  CHECK_THAT((sharing_error<32, 240, 1>()),
             Catch::Contains("deadlock") &&
                 Catch::Contains("for setmaxnreg from 168 registers to 240, with 64 free"));
  CHECK_THAT((sharing_error<24, 250, 1>()), Catch::Contains("multiples of 8"));
  CHECK_THAT((sharing_error<176, 168, 1>()), Catch::Contains("setmaxnreg.dec from 168 registers to 176"));
  CHECK_THAT((sharing_error<24, 160, 1>()), Catch::Contains("setmaxnreg.inc from 168 registers to 160"));
  CHECK_THAT((sharing_error<24, 240, 15>()), Catch::Contains("numbers are 1 to 15"));
}

/// Which element each place of a box in shared memory holds.
__global__ void loads(const __grid_constant__ CUtensorMap map, int x, int y, int z, bf16* to) {
  TITAN_SHARED(std::uint64_t, barrier, 1);
  const auto start = reinterpret_cast<std::uintptr_t>(dynamic_shared<std::byte>());
  bf16* const box = reinterpret_cast<bf16*>((start + kSwizzleBytes - 1) / kSwizzleBytes * kSwizzleBytes);
  if (threadIdx.x == 0) {
    init_barrier(barrier, 1);
    publish_barriers();
    arrive_expecting(barrier, 16 * 128);
    load_box(map, x, y, z, box, barrier);
  }
  __syncthreads();
  wait_parity(barrier, 0);
  for (int i = 0; i < 16 * 64; ++i) to[i] = box[i];
}

TEST_CASE("a box comes swizzled, with zeros for what is outside of its sequence") {
  constexpr int kWidth = 136, kLength = 20, kSequences = 3;
  Matrix x(kLength * kSequences, kWidth, 1);
  for (std::size_t i = 0; i < x.x.size(); ++i) x.x[i].bits = static_cast<std::uint16_t>(i + 1);
  const CUtensorMap map = x.map(16, kSequences);
  for (const auto& [col, row, sequence] :
       {std::tuple{0, 0, 0}, {64, 8, 1}, {128, 4, 2}, {0, 16, 1}, {72, -3, 1}}) {
    std::vector<bf16> box(16 * 64);
    launch(loads, dim3(1), dim3(32), 4 << 10, nullptr, map, col, row, sequence, box.data());
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
    for (int r = 0; r < 16; ++r)
      for (int c = 0; c < 64; ++c) {
        const int piece = (c / 8 ^ r % 8), place = r * 64 + piece * 8 + c % 8;
        const bool inside = col + c < kWidth && row + r >= 0 && row + r < kLength;
        const int want = inside ? (sequence * kLength + row + r) * kWidth + col + c + 1 : 0;
        CHECK(box[static_cast<std::size_t>(place)].bits == want);
      }
  }
}

TEST_CASE("tensor maps that the driver refuses are errors with their numbers") {
  alignas(16) static const bf16 x[256] = {};
  const TensorRows good{x, 64, 2, 1, 128, 256, 2};
  CHECK_NOTHROW(make_tensor_map(good));
  const auto refused = [&](auto spoil) {
    TensorRows rows = good;
    spoil(rows);
    CHECK_THROWS_WITH(make_tensor_map(rows), Catch::Contains("cuTensorMapEncodeTiled refuses rows of"));
  };
  refused([](TensorRows& r) { r.data = x + 1; });
  refused([](TensorRows& r) { r.row_bytes = 130; });
  refused([](TensorRows& r) { r.depth_bytes = 264; });
  refused([](TensorRows& r) { r.box_rows = 257; });
  refused([](TensorRows& r) { r.rows = 0; });
}

}  // namespace
}  // namespace titan::cuda
