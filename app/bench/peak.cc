#include "app/bench/peak.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/base/bf16.h"
#include "kernels/base/philox.h"
#include "kernels/cost/workspace.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/op/backend.h"

namespace titan {
namespace {

/// Not bound: the children of a bench choose their processors themselves.
std::unique_ptr<Backend> unbound_backend(int threads) {
  cpu::CpuOptions options;
  options.threads = threads;
  options.bind = false;
  return cpu::make_cpu_backend(options);
}

/// The shortest of several runs of one operation, after one that is not counted.
double best_seconds(Backend& backend, const Op& op, std::byte* const* addresses, double at_least_seconds) {
  const Command command{
      .op = &op, .binding = {addresses, ~std::uint32_t{0}}, .lane = 0, .ticket = 1, .waits = {}};
  std::array<CommandTime, 1> time{};
  const auto run = [&] {
    backend.execute(std::span(&command, 1), nullptr, time);
    return time[0].end - time[0].begin;
  };
  run();
  double best = run(), total = best;
  for (int i = 0; i < 3 || (total < at_least_seconds && i < 200); ++i) {
    const double seconds = run();
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

/// Uniform in [-1, 1): products of zeros are faster than others on some machines.
std::vector<float> random_values(std::int64_t count, std::uint64_t stream) {
  std::vector<float> values(static_cast<std::size_t>(count));
  const PhiloxKey key = philox_key(0, stream);
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const auto words =
        philox(key, {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 0, 0});
    for (std::size_t j = 0; j < 4 && i + j < values.size(); ++j)
      values[i + j] = static_cast<float>(static_cast<std::int32_t>(words[j])) * 0x1p-31f;
  }
  return values;
}

std::byte* random_matrix(Backend& backend, std::int64_t elements, DType dtype, std::uint64_t stream) {
  const std::vector<float> values = random_values(elements, stream);
  std::byte* memory = backend.allocate(Space::device, elements * size_of(dtype));
  if (dtype == DType::f32) {
    backend.upload(values.data(), memory, elements * size_of(dtype));
  } else {
    std::vector<bf16> rounded;
    for (const float value : values) rounded.push_back(to_bf16(value));
    backend.upload(rounded.data(), memory, elements * size_of(dtype));
  }
  return memory;
}

Operand matrix(ValueId value, DType dtype, std::int64_t rows, std::int64_t cols) {
  return {.value = value, .dtype = dtype, .rows = rows, .cols = cols, .pitch = cols};
}

}  // namespace

double measure_gemm_peak(DType dtype, int threads) {
  const std::unique_ptr<Backend> backend = unbound_backend(threads);
  double peak = 0;
  struct Shape {
    std::int64_t rows, cols, depth;
  };
  std::uint64_t stream = 0;
  for (const Shape& s : {Shape{2048, 2048, 2048}, Shape{4096, 1024, 1024}}) {
    const std::array<std::byte*, 3> addresses{
        random_matrix(*backend, s.rows * s.depth, dtype, ++stream),
        random_matrix(*backend, s.cols * s.depth, dtype, ++stream),
        backend->allocate(Space::device, s.rows * s.cols * size_of(dtype))};
    Gemm gemm;
    static_cast<Operand&>(gemm.a) = matrix(0, dtype, s.rows, s.depth);
    static_cast<Operand&>(gemm.b) = matrix(1, dtype, s.cols, s.depth);
    static_cast<Operand&>(gemm.c) = matrix(2, dtype, s.rows, s.cols);
    gemm.transpose_b = true;
    const double flops = 2.0 * static_cast<double>(s.rows * s.cols * s.depth);
    peak = std::max(peak, flops / best_seconds(*backend, gemm, addresses.data(), 0.8));
  }
  return peak;
}

double measure_bandwidth(int threads) {
  constexpr std::int64_t kElements = std::int64_t{64} << 20;
  const std::unique_ptr<Backend> backend = unbound_backend(threads);
  const std::int64_t blocks = square_sum_blocks(kElements);
  const std::array<std::byte*, 4> addresses{
      backend->allocate(Space::device, kElements * 4), backend->allocate(Space::device, kElements * 4),
      backend->allocate(Space::device, 4), backend->allocate(Space::device, blocks * 8)};
  Copy copy;
  static_cast<Operand&>(copy.x) = matrix(0, DType::f32, 1, kElements);
  static_cast<Operand&>(copy.y) = matrix(1, DType::f32, 1, kElements);
  SquareSum sum;
  static_cast<Operand&>(sum.x) = matrix(0, DType::f32, 1, kElements);
  static_cast<Operand&>(sum.sum) = matrix(2, DType::f32, 1, 1);
  static_cast<Operand&>(sum.partial) = matrix(3, DType::i64, 1, blocks);
  return std::max(4.0 * kElements / best_seconds(*backend, sum, addresses.data(), 0.3),
                  8.0 * kElements / best_seconds(*backend, copy, addresses.data(), 0.3));
}

Machine measured_machine(Machine machine) {
  machine.flops_f32 = machine.vector_flops = measure_gemm_peak(DType::f32, machine.threads);
  machine.flops_bf16 = measure_gemm_peak(DType::bf16, machine.threads);
  machine.memory_bytes_per_second = measure_bandwidth(machine.threads);
  return machine;
}

}  // namespace titan
