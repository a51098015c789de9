#include "app/bench/peak.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

#include "kernels/base/bf16.h"
#include "kernels/base/float8.h"
#include "kernels/base/philox.h"
#include "kernels/cost/workspace.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/op/backend.h"

namespace titan {
namespace {

/// A CPU's threads are not bound: the children of a bench choose their processors themselves.
std::unique_ptr<Backend> backend_of(const DeviceRequest& device) {
  if (choose_device(device) == DeviceKind::cuda) return make_backend(device);
  cpu::CpuOptions options;
  options.threads = compute_threads(device.threads);
  options.bind = false;
  return cpu::make_cpu_backend(options);
}

/// How long one operation is repeated on a GPU, in seconds.
constexpr double kGpuSeconds = 0.05;

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

/// Uniform in [-1, 1), again from the start after a prime number of them: products of zeros are faster than
/// others on some machines.
std::vector<float> random_values(std::int64_t count, std::uint64_t stream) {
  constexpr std::size_t kDifferent = 1000003;
  std::vector<float> values(static_cast<std::size_t>(count));
  const PhiloxKey key = philox_key(0, stream);
  const std::size_t drawn = std::min(values.size(), kDifferent);
  for (std::size_t i = 0; i < drawn; i += 4) {
    const auto words =
        philox(key, {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 0, 0});
    for (std::size_t j = 0; j < 4 && i + j < drawn; ++j)
      values[i + j] = static_cast<float>(static_cast<std::int32_t>(words[j])) * 0x1p-31f;
  }
  for (std::size_t i = drawn; i < values.size(); ++i) values[i] = values[i - drawn];
  return values;
}

template <class T, class Round>
std::byte* uploaded(Backend& backend, const std::vector<float>& values, Round round) {
  std::vector<T> rounded;
  rounded.reserve(values.size());
  for (const float value : values) rounded.push_back(round(value));
  const auto bytes = static_cast<std::int64_t>(rounded.size() * sizeof(T));
  std::byte* memory = backend.allocate(Space::device, bytes);
  backend.upload(rounded.data(), memory, bytes);
  return memory;
}

std::byte* random_matrix(Backend& backend, std::int64_t elements, DType dtype, std::uint64_t stream) {
  const std::vector<float> values = random_values(elements, stream);
  if (is_float8(dtype)) return uploaded<f8e4m3>(backend, values, to_f8e4m3);
  if (dtype == DType::bf16) return uploaded<bf16>(backend, values, to_bf16);
  return uploaded<float>(backend, values, [](float value) { return value; });
}

Operand matrix(ValueId value, DType dtype, std::int64_t rows, std::int64_t cols) {
  return {.value = value, .dtype = dtype, .rows = rows, .cols = cols, .pitch = cols};
}

struct GemmSize {
  std::int64_t rows, cols, depth;
};

/// Seconds of one product.
double gemm_seconds(Backend& backend, const Machine& machine, DType dtype, const GemmSize& s) {
  const DType result = is_float8(dtype) ? DType::bf16 : dtype;
  Gemm gemm;
  static_cast<Operand&>(gemm.a) = matrix(0, dtype, s.rows, s.depth);
  static_cast<Operand&>(gemm.b) = matrix(1, dtype, s.cols, s.depth);
  static_cast<Operand&>(gemm.c) = matrix(2, result, s.rows, s.cols);
  gemm.transpose_b = true;
  std::vector<std::byte*> addresses{random_matrix(backend, s.rows * s.depth, dtype, 1),
                                    random_matrix(backend, s.cols * s.depth, dtype, 2),
                                    backend.allocate(Space::device, s.rows * s.cols * size_of(result))};
  if (const std::int64_t bytes = gemm_workspace_bytes(gemm, machine); bytes > 0) {
    static_cast<Operand&>(gemm.workspace) = matrix(3, DType::f32, 1, bytes / 4);
    addresses.push_back(backend.allocate(Space::device, bytes));
  }
  if (is_float8(dtype)) {
    const float one = 1;
    const auto scale = static_cast<ValueId>(addresses.size());
    static_cast<Operand&>(gemm.scale_a) = static_cast<Operand&>(gemm.scale_b) =
        matrix(scale, DType::f32, 1, 1);
    gemm.fast_accumulation = true;
    addresses.push_back(backend.allocate(Space::device, sizeof one));
    backend.upload(&one, addresses.back(), sizeof one);
  }
  return best_seconds(backend, gemm, addresses.data(), machine.kind == DeviceKind::cuda ? kGpuSeconds : 0.8);
}

double copy_seconds(Backend& backend, std::int64_t elements, double at_least_seconds) {
  const std::array<std::byte*, 2> addresses{backend.allocate(Space::device, elements * 4),
                                            backend.allocate(Space::device, elements * 4)};
  Copy copy;
  static_cast<Operand&>(copy.x) = matrix(0, DType::f32, 1, elements);
  static_cast<Operand&>(copy.y) = matrix(1, DType::f32, 1, elements);
  return best_seconds(backend, copy, addresses.data(), at_least_seconds);
}

/// GPUs differ by orders of magnitude: sizes double until one run takes this long.
constexpr double kLongEnough = 1e-3;

double measure_gpu_gemm_peak(DType dtype, const DeviceRequest& device, const Machine& machine) {
  constexpr std::int64_t kFirst = 128, kLast = 8192;
  double peak = 0;
  for (std::int64_t n = kFirst; n <= kLast; n *= 2) {
    const std::unique_ptr<Backend> backend = backend_of(device);
    const double seconds = gemm_seconds(*backend, machine, dtype, {n, n, n});
    peak = std::max(peak, 2.0 * static_cast<double>(n) * static_cast<double>(n * n) / seconds);
    if (seconds >= kLongEnough) break;
  }
  return peak;
}

/// Of the largest arrays alone: smaller ones stay in a cache.
double measure_gpu_bandwidth(const DeviceRequest& device) {
  constexpr std::int64_t kFirst = std::int64_t{1} << 20, kLast = std::int64_t{256} << 20;
  double seconds = 0;
  for (std::int64_t elements = kFirst;; elements *= 2) {
    const std::unique_ptr<Backend> backend = backend_of(device);
    seconds = copy_seconds(*backend, elements, kGpuSeconds);
    if (seconds >= kLongEnough || elements == kLast) return 8.0 * static_cast<double>(elements) / seconds;
  }
}

}  // namespace

double measure_gemm_peak(DType dtype, const DeviceRequest& device) {
  const Machine machine = machine_of(device);
  if (machine.kind == DeviceKind::cuda) return measure_gpu_gemm_peak(dtype, device, machine);
  const std::unique_ptr<Backend> backend = backend_of(device);
  double peak = 0;
  for (const GemmSize& s : {GemmSize{2048, 2048, 2048}, GemmSize{4096, 1024, 1024}})
    peak = std::max(peak, 2.0 * static_cast<double>(s.rows * s.cols * s.depth) /
                              gemm_seconds(*backend, machine, dtype, s));
  return peak;
}

double measure_bandwidth(const DeviceRequest& device) {
  if (choose_device(device) == DeviceKind::cuda) return measure_gpu_bandwidth(device);
  constexpr std::int64_t kElements = std::int64_t{64} << 20;
  const std::unique_ptr<Backend> backend = backend_of(device);
  const std::int64_t blocks = square_sum_blocks(kElements);
  const std::array<std::byte*, 3> addresses{backend->allocate(Space::device, kElements * 4),
                                            backend->allocate(Space::device, 4),
                                            backend->allocate(Space::device, blocks * 8)};
  SquareSum sum;
  static_cast<Operand&>(sum.x) = matrix(0, DType::f32, 1, kElements);
  static_cast<Operand&>(sum.sum) = matrix(1, DType::f32, 1, 1);
  static_cast<Operand&>(sum.partial) = matrix(2, DType::i64, 1, blocks);
  const double sum_seconds = best_seconds(*backend, sum, addresses.data(), 0.3);
  return std::max(4.0 * kElements / sum_seconds, 8.0 * kElements / copy_seconds(*backend, kElements, 0.3));
}

bool multiplies_float8(const Machine& machine) {
  constexpr int kFirstCapability = 89;
  return machine.kind == DeviceKind::cuda && machine.isa.starts_with("sm_") &&
         std::atoi(machine.isa.c_str() + 3) >= kFirstCapability;
}

Machine measured_machine(Machine machine, const DeviceRequest& device) {
  machine.flops_f32 = machine.vector_flops = measure_gemm_peak(DType::f32, device);
  machine.flops_f8 = machine.flops_bf16 = measure_gemm_peak(DType::bf16, device);
  if (multiplies_float8(machine)) machine.flops_f8 = measure_gemm_peak(DType::f8e4m3, device);
  machine.memory_bytes_per_second = measure_bandwidth(device);
  return machine;
}

}  // namespace titan
