// Initial weights have the bits of the CPU, whatever part of a parameter a rank holds.
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "kernels/base/philox.h"
#include "kernels/cpu/base/isa.h"
#include "kernels/cpu/base/run.h"
#include "kernels/cpu/base/team.h"
#include "kernels/cuda/base/run.h"
#include "tests/kernels/cuda/base/device_memory.h"

namespace titan {
namespace {

constexpr std::int64_t kSeed = 42;

std::vector<std::byte> seed_bytes() {
  std::vector<std::byte> bytes(sizeof kSeed);
  std::memcpy(bytes.data(), &kSeed, sizeof kSeed);
  return bytes;
}

void check_same_bits(const InitNormal& op) {
  std::vector<std::byte> seed = seed_bytes(), y(static_cast<std::size_t>(op.y.rows * op.y.pitch * 4));
  const test::DeviceMemory device_seed(seed), device_y(y);
  std::byte* const device_addresses[] = {device_seed.get(), device_y.get()};
  std::byte* const host_addresses[] = {seed.data(), y.data()};

  const cpu::Team team(2);
  const Binding host{.addresses = host_addresses};
  cpu::run(op, cpu::Context{.binding = host, .team = team, .isa = cpu::best_isa()});
  const Binding device{.addresses = device_addresses};
  cuda::run(op, cuda::Context{.binding = device, .device = {}});
  TITAN_CUDA(cudaStreamSynchronize(nullptr));
  CHECK((device_y.bytes() == y));
}

TEST_CASE("initial weights have the bits of the CPU") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  InitNormal op{.seed = {{0, DType::i64, 1, 1, 1}},
                .y = {{1, dtype, 60, 333, 340}},
                .stream = hash_name("model.layers.3.self_attn.q_proj.weight"),
                .std = 0.02f,
                .global_cols = 333};
  check_same_bits(op);
  op.cutoff = 3;
  check_same_bits(op);
  op.first_row = 1000003;
  op.first_col = 7;
  op.global_cols = 14336;
  check_same_bits(op);
  op.y.rows = 1;
  op.y.cols = op.y.pitch = 20000;
  op.mean = 1;
  check_same_bits(op);
}

}  // namespace
}  // namespace titan
