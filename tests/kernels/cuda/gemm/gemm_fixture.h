// A small product in device memory, and engines that believe a given time of each algorithm.
#pragma once

#include <catch2/catch.hpp>
#include <random>
#include <utility>
#include <vector>

#include "kernels/base/bf16.h"
#include "kernels/cuda/base/check.h"
#include "kernels/cuda/base/run.h"
#include "kernels/cuda/gemm/gemm_engine.h"
#include "tests/kernels/cuda/base/device_memory.h"

namespace titan::cuda {

using test::DeviceMemory;

/// c [24, 16] f32 = a [24, 640]·b [640, 16] of bf16: a long sum, so that algorithms differ in their bits.
class GemmFixture {
 public:
  GemmFixture() {
    std::mt19937 random(7);
    std::normal_distribution<float> draw;
    for (const auto& [memory, count] : {std::pair{&a_, kRows * kDepth}, {&b_, kDepth * kCols}}) {
      std::vector<bf16> values;
      for (int i = 0; i < count; ++i) values.push_back(to_bf16(draw(random)));
      memory->write(values);
    }
    c_.write(std::vector<std::byte>(c_.bytes().size()));
    op.a = {{0, DType::bf16, kRows, kDepth, kDepth}};
    op.b = {{1, DType::bf16, kDepth, kCols, kCols}};
    op.c = {{2, DType::f32, kRows, kCols, kCols}};
    op.workspace = {{3, DType::f32, 1, kWorkspace / 4, kWorkspace / 4}};
    addresses_[0] = a_.get(), addresses_[1] = b_.get(), addresses_[2] = c_.get();
    addresses_[3] = workspace_.get();
  }

  std::vector<std::byte> run(GemmEngine& engine, cudaStream_t stream = nullptr) {
    enqueue(engine, stream);
    TITAN_CUDA(cudaStreamSynchronize(stream));
    return c_.bytes();
  }
  void enqueue(GemmEngine& engine, cudaStream_t stream) {
    const Binding binding{.addresses = addresses_, .overwrite = 0};
    titan::cuda::run(op, Context{.binding = binding, .stream = stream, .device = {}, .gemm = &engine});
  }
  void shift(int operand, int bytes) { addresses_[operand] += bytes; }

  Gemm op;

 private:
  static constexpr int kRows = 24, kCols = 16, kDepth = 640, kWorkspace = 1 << 20;
  // One row more, for shifted operands.
  DeviceMemory a_{(kRows + 1) * kDepth * 2}, b_{(kDepth + 1) * kCols * 2}, c_{(kRows + 1) * kCols * 4},
      workspace_{kWorkspace};
  std::byte* addresses_[4];
};

/// An engine's options that measure with the given seconds, one a candidate; each is asked for `repeats`
/// times.
inline GemmOptions with_seconds(std::vector<double> seconds, int* asked = nullptr) {
  GemmOptions options;
  options.measure = true;
  options.repeats = 3;
  options.stopwatch = [seconds, asked, calls = std::size_t{0}](FunctionRef<void()> launch,
                                                               cudaStream_t) mutable {
    launch();
    if (asked != nullptr) ++*asked;
    return seconds[calls++ / 3 % seconds.size()];
  };
  return options;
}

inline GemmAlgorithm only_algorithm(const GemmEngine& engine) {
  REQUIRE(engine.table().algorithms.size() == 1);
  return engine.table().algorithms.begin()->second;
}

}  // namespace titan::cuda
