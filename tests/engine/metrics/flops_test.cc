#include "engine/metrics/flops.h"

#include <catch2/catch.hpp>

namespace titan {
namespace {

// Llama 3.1: parameters without the input embedding are 5,639,424; 7,504,924,672; 69,503,033,344;
// 403,752,042,496.
constexpr TransformerSize kDebug{6'163'712, 524'288, 6, 16, 16};
constexpr TransformerSize k8B{8'030'261'248, 525'336'576, 32, 32, 128};
constexpr TransformerSize k70B{70'553'706'496, 1'050'673'152, 80, 64, 128};
constexpr TransformerSize k405B{405'853'388'800, 2'101'346'304, 126, 128, 128};

TEST_CASE("FLOPs of a token of the Llama 3.1 models") {
  CHECK(flops_per_token(kDebug, 2048) == 71'585'280 + 0.0);
  CHECK(flops_per_token(k8B, 2048) / 1e9 == Approx(48.25).margin(0.005));
  CHECK(flops_per_token(k8B, 8192) / 1e9 == Approx(57.91).margin(0.005));
  CHECK(flops_per_token(k70B, 8192) / 1e9 == Approx(481.4).margin(0.05));
  CHECK(flops_per_token(k405B, 8192) / 1e9 == Approx(2625).margin(0.5));
}

TEST_CASE("a token count at full speed is the peak over the FLOPs of a token") {
  CHECK(*peak_flops("NVIDIA H100 80GB HBM3") / flops_per_token(k8B, 8192) == Approx(17'077).margin(1));
}

TEST_CASE("MFU and TFLOP/s") {
  const double flops = flops_per_token(k8B, 8192);
  CHECK(tflops(flops, 4376) == Approx(253.41).margin(0.05));
  CHECK(*mfu(flops, 4376, 989e12) == Approx(25.62).margin(0.01));
  CHECK_FALSE(mfu(flops, 4376, std::nullopt));
}

TEST_CASE("peaks by the names that drivers give") {
  CHECK(peak_flops("NVIDIA A100-SXM4-80GB") == 312e12);
  CHECK(peak_flops("NVIDIA RTX A6000") == 154.85e12);
  CHECK(peak_flops("NVIDIA H100 80GB HBM3") == 989e12);
  CHECK(peak_flops("NVIDIA H100 NVL") == 835e12);
  CHECK(peak_flops("NVIDIA H100 PCIe") == 756e12);
  CHECK(peak_flops("NVIDIA H200") == 989e12);
  CHECK(peak_flops("NVIDIA H20") == 148e12);
  CHECK(peak_flops("NVIDIA B200") == 2.25e15);
  CHECK(peak_flops("NVIDIA GB200") == 2.5e15);
  CHECK(peak_flops("NVIDIA L40S") == 362e12);
  CHECK(peak_flops("AMD Instinct MI300X") == 1300e12);
}

TEST_CASE("no peak is better than a wrong one") {
  CHECK_FALSE(peak_flops(""));
  CHECK_FALSE(peak_flops("AMD EPYC 9654 96-Core Processor"));
  CHECK_FALSE(peak_flops("NVIDIA RTX A1000 Laptop GPU"));  // no A100
  CHECK_FALSE(peak_flops("NVIDIA L40"));
  CHECK_FALSE(peak_flops("NVIDIA H100 80GB HBM3 MIG 1g.10gb"));
}

}  // namespace
}  // namespace titan
