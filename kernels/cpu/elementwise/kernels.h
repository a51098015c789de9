// The range kernels of the elementwise operations: what an operation does to rows (or elements) [begin, end).
// They are compiled once per instruction set (*_simd.cc) and reached through tables of function pointers.
// Plain C types only: this header is included by SIMD sources.
#pragma once

#include <stdint.h>

namespace titan::cpu {

/// Index into tables of kernels by element type.
enum ElementType { kF32, kBf16, kElementTypes };

/// Row r is at data + r·pitch elements. No data: the operand is absent.
struct Rows {
  void* data;
  int64_t pitch;
};

/// Operands of one element type; statistics, weight gradients and loss are f32.
struct RmsNormArgs {
  Rows x, delta, weight, sum, y, inv_rms;
  int64_t cols;
  float epsilon;
};
struct RmsNormGradArgs {
  Rows dy, x, weight, inv_rms, dresidual, dx;
  int64_t cols;
};
struct NormKernels {
  void (*rms_norm[kElementTypes])(const RmsNormArgs&, int64_t begin, int64_t end);
  /// Adds the rows' part of the weight gradient onto dweight.
  void (*rms_norm_grad[kElementTypes])(const RmsNormGradArgs&, float* dweight, int64_t begin, int64_t end);
  /// y[c] = Σ x[r][c] over `rows`, in order, for columns [begin, end); `add` adds it onto y.
  void (*sum_rows)(Rows x, int64_t rows, float* y, bool add, int64_t begin, int64_t end);
};

struct RopeArgs {
  Rows x, y, positions, table;
  int64_t cols;
  int head_dim, rotated_heads;
  bool inverse;
};
struct RopeKernels {
  void (*rope[kElementTypes][kElementTypes])(const RopeArgs&, int64_t begin, int64_t end);  ///< [x][y]
};

struct SwiGluArgs {
  Rows gate_up, y;
  int64_t cols;  ///< of y
};
struct SwiGluGradArgs {
  Rows dy, gate_up, dgate_up;
  int64_t cols;  ///< of dy
};
struct SwiGluKernels {
  void (*swiglu[kElementTypes])(const SwiGluArgs&, int64_t begin, int64_t end);
  void (*swiglu_grad[kElementTypes])(const SwiGluGradArgs&, int64_t begin, int64_t end);
};

struct EmbeddingArgs {
  Rows tokens, table, y;
  int64_t first_row, table_rows, cols;
};
struct EmbeddingKernels {
  void (*embedding[kElementTypes][kElementTypes])(const EmbeddingArgs&, int64_t begin,
                                                  int64_t end);  ///< [table][y]
  /// y = Σ x[order[i]] over i < count, in order; `add` adds it onto y.
  void (*sum_picked[kElementTypes])(Rows x, const int32_t* order, int64_t count, float* y, bool add,
                                    int64_t cols);
};

struct LogitStatsArgs {
  Rows logits, targets, stats;
  int64_t cols, first_column;
};
struct CrossEntropyGradArgs {
  Rows logits, stats, targets, dlogits;
  int64_t cols, first_column;
  float valid_tokens;
};
struct LossKernels {
  void (*logit_stats[kElementTypes])(const LogitStatsArgs&, int64_t begin, int64_t end);
  void (*cross_entropy_grad[kElementTypes])(const CrossEntropyGradArgs&, int64_t begin, int64_t end);
};

struct AdamWArgs {
  const float* grad;
  float *param, *exp_avg, *exp_avg_sq;
  float grad_scale, learning_rate, bias1, bias2, beta1, beta2, epsilon, weight_decay;
};
struct OptimizerKernels {
  double (*square_sum)(const float* x, int64_t n);
  void (*adamw)(const AdamWArgs&, int64_t begin, int64_t end);
};

/// Which 8-bit format, as an index.
enum Float8Type { kE4m3, kE5m2, kFloat8Types };

struct QuantizeKernels {
  /// The largest of `most` and the magnitudes of n elements, as bits of f32: NaN is the largest.
  uint32_t (*amax[kElementTypes])(const void* x, int64_t n, uint32_t most);
  /// most[i] becomes the larger of itself and the magnitude of x[i].
  void (*column_amax[kElementTypes])(const void* x, int64_t n, uint32_t* most);
  /// y[i] = x[i] · factors[i] in 8 bits, or · factors[0] where `one`.
  void (*convert[kElementTypes][kFloat8Types])(const void* x, const float* factors, bool one, uint8_t* y,
                                               int64_t n);
};

#define TITAN_ELEMENTWISE_KERNELS           \
  extern const NormKernels kNorm;           \
  extern const RopeKernels kRope;           \
  extern const SwiGluKernels kSwiGlu;       \
  extern const EmbeddingKernels kEmbedding; \
  extern const LossKernels kLoss;           \
  extern const QuantizeKernels kQuantize;   \
  extern const OptimizerKernels kOptimizer;

namespace baseline {
TITAN_ELEMENTWISE_KERNELS
}
namespace avx2 {
TITAN_ELEMENTWISE_KERNELS
}
namespace avx512 {
TITAN_ELEMENTWISE_KERNELS
}
#undef TITAN_ELEMENTWISE_KERNELS

}  // namespace titan::cpu
