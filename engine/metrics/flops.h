// Model FLOPs and how they relate to a device's peak (MFU), as TorchTitan counts them: no discount for the
// causal mask, and recomputed activations do not count.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace titan {

struct TransformerSize {
  int64_t parameters = 0;            // all of them
  int64_t embedding_parameters = 0;  // the input embedding; 0 when it is tied to the output
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
};

/// Forward and backward of one token: 6 (N - N_embedding) + 12 L H head_dim seq_len.
double flops_per_token(const TransformerSize& size, int64_t seq_len);

/// Dense bf16 peak in FLOP/s of a device by the name its driver gives it ("NVIDIA H100 80GB HBM3"), from the
/// vendors' data sheets. A device that is not in the table, or only a part of one (MIG), has no known peak.
std::optional<double> peak_flops(std::string_view device_name);

/// 1e12 FLOP/s at `tps` tokens a second.
double tflops(double flops_per_token, double tps);

/// Percent of `peak` (FLOP/s); none when the peak is not known.
std::optional<double> mfu(double flops_per_token, double tps, std::optional<double> peak);

}  // namespace titan
