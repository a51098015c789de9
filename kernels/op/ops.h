// The vocabulary: every operation a step program can hold. One op is one kernel launch or one library call.
//
// Conventions. Tokens are rows: activations are [T, D] with T = sequences * length. Weights are [out, in],
// row-major. "compute dtype" is bf16 or f32; statistics (inv_rms, lse, loss) are f32. Plain fields are
// compile-time constants; whatever changes from step to step (tokens, learning rate, seeds) is an operand. An
// optional operand has no value.
//
// TITAN_OP(Name, "name", operands...) gives an op its name and its operand list in a fixed order; `kShare`
// lists (written, read) operand pairs that may have the same memory when the read value dies in this node.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/op/axis.h"
#include "kernels/op/operand.h"

namespace titan {

using SharePair = std::pair<int, int>;  ///< indices into the operand list: {written, read}

#define TITAN_OP(type, text, ...)                                 \
  static constexpr std::string_view kName = text;                 \
  static constexpr std::string_view kOperandNames = #__VA_ARGS__; \
  auto operands() { return std::tie(__VA_ARGS__); }               \
  auto operands() const { return std::tie(__VA_ARGS__); }

// --- Linear algebra
// -------------------------------------------------------------------------------------------------

/// c = op(a) · op(b), f32 accumulation; op transposes when its flag is set. Inputs share a dtype; c may be
/// f32 of bf16 inputs. op(a) is [c.rows, k], op(b) is [k, c.cols]. Forward: y = x · Wᵀ.
///
/// Inputs may also be 8-bit floats, not both e5m2, with c in bf16 or f32. They then have one layout,
/// transpose_b alone (all that Hopper's tensor cores take), m, n, k and all pitches are multiples of 16, and
/// `scale_a` and `scale_b` (f32) say by what factors the products are multiplied, after the sum over k: both
/// [1, 1], or one factor a row of op(a) ([c.rows, 1]) and one a column of the product ([c.cols, 1]). An
/// accumulating c has the scaled product added to it. float8_problem() (float8_rules.h) checks all this.
struct Gemm {
  In a, b;
  Result c;
  Scratch workspace;  ///< optional, f32 or bytes as workspace(op, machine) asks
  bool transpose_a = false, transpose_b = false;
  In scale_a = {}, scale_b = {};   ///< of 8-bit inputs only
  bool fast_accumulation = false;  ///< 8-bit sums may keep fewer bits than f32 where that is faster (Hopper)
  TITAN_OP(Gemm, "gemm", a, b, c, workspace, scale_a, scale_b)
};

/// amax [1, 1] f32 = max |x| over x (bf16 or f32); NaN when any element is NaN. Order does not matter: it is
/// also the largest of the elements' bits as integers, signs cleared, as f32.
struct Amax {
  In x;
  Out amax;
  TITAN_OP(Amax, "amax", x, amax)
};

/// y = x in 8 bits, and y_transposed [x.cols, x.rows] the same of xᵀ; either may be absent, and both have one
/// dtype. Each element is multiplied by a factor in f32, then rounded to nearest even, saturating: beyond
/// ±max (448 or 57344) it becomes ±max, NaN stays NaN. x is bf16 or f32.
///
/// With `amax` [1, 1] there is one factor, max / max(amax, 1e-12). Without it there is one for each row of y
/// and one for each row of y_transposed (a column of x), from that row's own largest element, rounded down
/// to a power of two. `scale` ([1, 1] or [y.rows, 1]) and `scale_transposed` ([y_transposed.rows, 1], only
/// without amax) hold the reciprocals of the factors, rounded to f32: what a Gemm wants as scale_a or
/// scale_b. A NaN amax makes all of y and the scales NaN, an infinite one makes the infinite elements NaN:
/// 8 bits hide neither. float8.h has the arithmetic, which every backend follows to the bit.
struct Quantize {
  In x, amax = {};
  Out y = {}, y_transposed = {}, scale = {}, scale_transposed = {};
  TITAN_OP(Quantize, "quantize", x, amax, y, y_transposed, scale, scale_transposed)
};

// --- Normalisation, position, activation
// ----------------------------------------------------------------------------

/// sum = x + delta (rounded to the compute dtype); inv_rms[t] = 1/sqrt(mean(sum²)+epsilon); y = sum · inv_rms
/// · weight. Without delta: sum is absent and y is the norm of x. Shapes [T, D], weight [1, D], inv_rms [T,
/// 1] f32.
///
/// Here and below what 8-bit products need of a result may be found as it is written, bit for bit as of the
/// rounded result: amax as Amax finds it, or quantized (e4m3) and scale as Quantize without an amax writes
/// its y and scale.
struct RmsNorm {
  In x, delta, weight;
  Out sum, y, inv_rms;
  float epsilon = 1e-5f;
  Out amax = {}, quantized = {}, scale = {};  ///< of y
  TITAN_OP(RmsNorm, "rms_norm", x, delta, weight, sum, y, inv_rms, amax, quantized, scale)
  static constexpr std::array<SharePair, 2> kShare{{{3, 0}, {3, 1}}};
};

/// Backward of y = x·inv_rms·weight: dx = inv_rms·(g − x·inv_rms²·mean(g·x)) [+ dresidual], g = dy·weight.
/// dweight [1, D] f32 = Σ_t dy·x·inv_rms. `partial` [P, D] f32 holds P fixed row blocks' sums, added in block
/// order. amax: of dx.
struct RmsNormGrad {
  In dy, x, weight, inv_rms, dresidual;
  Out dx;
  Accumulate dweight;
  Scratch partial;
  Out amax = {};
  TITAN_OP(RmsNormGrad, "rms_norm_grad", dy, x, weight, inv_rms, dresidual, dx, dweight, partial, amax)
  static constexpr std::array<SharePair, 2> kShare{{{5, 0}, {5, 4}}};
};

/// Frequency scaling of Llama 3.1 (factor 8, low 1, high 4, original length 8192); factor 1 = plain RoPE.
struct RopeScaling {
  float factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  std::int64_t original_length = 8192;
  bool operator==(const RopeScaling&) const = default;
};

/// table [positions, head_dim] f32: row p = cos(p·f_0..f_{h/2-1}), then sin of the same; f_i =
/// theta^(-2i/head_dim), scaled.
struct RopeTable {
  Out table;
  double theta = 500000;
  RopeScaling scaling;
  TITAN_OP(RopeTable, "rope_table", table)
};

/// Half-split (Hugging Face) rotary embedding of the first `rotated_heads` heads of every row; the others are
/// copied. y_lo = x_lo·cos − x_hi·sin, y_hi = x_hi·cos + x_lo·sin; `inverse` negates sin (the backward). x, y
/// may differ in dtype. positions [T, 1] i32; a row with position < 0 is copied. amax: of y.
struct Rope {
  In x, positions, table;
  Out y;
  int head_dim = 0, rotated_heads = 0;
  bool inverse = false;
  Out amax = {};
  TITAN_OP(Rope, "rope", x, positions, table, y, amax)
  static constexpr std::array<SharePair, 1> kShare{{{3, 0}}};
};

/// gate_up [T, 2F] (gate | up); y [T, F] = silu(gate) · up.
struct SwiGlu {
  In gate_up;
  Out y;
  Out amax = {}, quantized = {}, scale = {};  ///< of y
  TITAN_OP(SwiGlu, "swiglu", gate_up, y, amax, quantized, scale)
};

/// dgate_up [T, 2F] from dy [T, F] and gate_up.
struct SwiGluGrad {
  In dy, gate_up;
  Out dgate_up;
  Out amax = {}, quantized = {}, scale = {};  ///< of dgate_up
  TITAN_OP(SwiGluGrad, "swiglu_grad", dy, gate_up, dgate_up, amax, quantized, scale)
  static constexpr std::array<SharePair, 1> kShare{{{2, 1}}};
};

// --- Attention
// ------------------------------------------------------------------------------------------------------

/// The shape of an attention: rows of q are sequences × q_length, rows of k and v are sequences × k_length.
/// Head h reads key/value head h / (heads / kv_heads). Key row k is visible to query row q of the same
/// sequence when doc_start[q] <= k_position <= q_position: one mask for causality, documents, context
/// parallelism and KV caches.
struct AttentionShape {
  std::int64_t sequences = 1;
  int heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 0;  ///< 1/sqrt(head_dim)
  bool operator==(const AttentionShape&) const = default;
};

/// Flash attention, no S×S matrix in memory. q, out [Tq, heads·head_dim]; k, v [Tk, kv_heads·head_dim];
/// positions i32 [T, 1]; lse [Tq, heads] f32 = log Σ exp(scale·q·k) (natural log). A row that sees no key
/// gives out = 0, lse = −inf. kv_length (optional, i32 [1, 1]): rows of k at or after it are not read.
struct Attention {
  In q, k, v, q_position, k_position, doc_start, kv_length;
  Out out, lse;
  AttentionShape shape;
  TITAN_OP(Attention, "attention", q, k, v, q_position, k_position, doc_start, kv_length, out, lse)
};

/// Combines two partial attentions over disjoint keys: lse = log(e^lse_a + e^lse_b), out = Σ out_i·e^(lse_i −
/// lse).
struct MergeLse {
  In out_a, lse_a, out_b, lse_b;
  Out out, lse;
  int head_dim = 0;
  TITAN_OP(MergeLse, "merge_lse", out_a, lse_a, out_b, lse_b, out, lse)
  static constexpr std::array<SharePair, 2> kShare{{{4, 0}, {5, 1}}};
};

/// delta [T, heads] f32 = Σ_d dout·out, the softmax correction of the backward (final out, whatever pieces it
/// came from).
struct AttentionDelta {
  In dout, out;
  Out delta;
  int head_dim = 0;
  TITAN_OP(AttentionDelta, "attention_delta", dout, out, delta)
};

/// dq, dk, dv from the *final* lse and delta. With a ring of key pieces dq, dk, dv accumulate in f32.
struct AttentionGrad {
  In dout, q, k, v, lse, delta, q_position, k_position, doc_start;
  Result dq, dk, dv;
  AttentionShape shape;
  TITAN_OP(AttentionGrad, "attention_grad", dout, q, k, v, lse, delta, q_position, k_position, doc_start, dq,
           dk, dv)
};

/// Writes the rows of x at cache row sequence·capacity + position (capacity = cache.rows / sequences).
/// Position < 0: skipped.
struct CacheWrite {
  In x, positions;
  State cache;
  std::int64_t sequences = 1;
  TITAN_OP(CacheWrite, "cache_write", x, positions, cache)
};

// --- Embedding and loss
// ---------------------------------------------------------------------------------------------

/// y[t] = table[token − first_row], zero where the token is outside the table's rows (another vocabulary
/// shard's).
struct Embedding {
  In tokens, table;
  Out y;
  std::int64_t first_row = 0;
  TITAN_OP(Embedding, "embedding", tokens, table, y)
};

/// dtable (f32) += rows of dy by token, summed in token order: deterministic. `order` is i32 [1, T + table
/// rows + 1] scratch.
struct EmbeddingGrad {
  In tokens, dy;
  Accumulate dtable;
  Scratch order;
  std::int64_t first_row = 0;
  TITAN_OP(EmbeddingGrad, "embedding_grad", tokens, dy, dtable, order)
};

/// stats [T, 3] f32: row maximum m, Σ exp(logit − m), the target's logit (0 when the target is ignored or
/// outside [first_column, first_column + V)). logits [T, V]; targets i32 [T, 1], −100 = ignored.
struct LogitStats {
  In logits, targets;
  Out stats;
  std::int64_t first_column = 0;
  TITAN_OP(LogitStats, "logit_stats", logits, targets, stats)
};

/// dlogits = (softmax(logits) − onehot(target)) / valid_tokens, zero rows for ignored targets. valid_tokens
/// [1, 1] f32 is global.
struct CrossEntropyGrad {
  In logits, stats, targets, valid_tokens;
  Out dlogits;
  std::int64_t first_column = 0;
  TITAN_OP(CrossEntropyGrad, "cross_entropy_grad", logits, stats, targets, valid_tokens, dlogits)
  static constexpr std::array<SharePair, 1> kShare{{{4, 0}}};
};

/// loss [1, 1] f32 += Σ_t (m + log Σ − target logit) / valid_tokens over targets that are not ignored.
struct CrossEntropyLoss {
  In stats, targets, valid_tokens;
  Accumulate loss;
  TITAN_OP(CrossEntropyLoss, "cross_entropy_loss", stats, targets, valid_tokens, loss)
};

// --- Optimizer
// ------------------------------------------------------------------------------------------------------

/// The unit of SquareSum's blocks, in elements.
inline constexpr std::int64_t kSquareSumUnit = 64 * 1024;

/// sum [1, 1] f32 = Σ x² over x [1, n] f32, in fixed blocks: the same bits on any number of threads.
/// `partial` [1, P] holds the f64 sums of P blocks (i64 stands for their bytes) of ⌈units/P⌉ units of x each.
struct SquareSum {
  In x;
  Out sum;
  Scratch partial;
  TITAN_OP(SquareSum, "square_sum", x, sum, partial)
};

/// norm = sqrt(Σ square_sums); scale = min(1, max_norm / (norm + 1e-6)), 1 when max_norm <= 0
/// (torch.nn.utils.clip_grad_norm_). A non-finite norm or loss sets `stop` [1, 1] i32 for good: AdamW then
/// leaves everything as it was.
struct ClipScale {
  In square_sums, loss;
  Out norm, scale;
  State stop;
  float max_norm = 1;
  TITAN_OP(ClipScale, "clip_scale", square_sums, loss, norm, scale, stop)
};

/// Decoupled weight decay Adam (Loshchilov & Hutter 2019) on flat f32 [1, n]: g = grad·scale; p −=
/// lr·decay·p; m, v moments; p −= lr/bias1 · m / (sqrt(v/bias2) + eps). `hyper` [1, 3] f32 = lr, bias1 = 1 −
/// β1^t, bias2 = 1 − β2^t.
struct AdamW {
  In grad, scale, hyper, stop;
  State param, exp_avg, exp_avg_sq;
  float beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, weight_decay = 0.1f;
  TITAN_OP(AdamW, "adamw", grad, scale, hyper, stop, param, exp_avg, exp_avg_sq)
};

// --- Data movement and initial values
// -------------------------------------------------------------------------------

/// y = x in another dtype, rounded to nearest even. Same shape, any pitch.
struct Cast {
  In x;
  Out y;
  TITAN_OP(Cast, "cast", x, y)
};

/// y = x, same dtype and shape, any pitch; also between memory spaces.
struct Copy {
  In x;
  Out y;
  TITAN_OP(Copy, "copy", x, y)
};

/// y = a + b, elementwise in f32, rounded once.
struct Add {
  In a, b;
  Out y;
  TITAN_OP(Add, "add", a, b, y)
  static constexpr std::array<SharePair, 2> kShare{{{2, 0}, {2, 1}}};
};

struct Fill {
  Out y;
  float value = 0;
  TITAN_OP(Fill, "fill", y)
};

/// y = 0, 1, 2, … along rows (i32 [n, 1]), modulo `period` when it is positive.
struct Iota {
  Out y;
  std::int64_t period = 0;
  TITAN_OP(Iota, "iota", y)
};

/// Normal values, a pure function of (seed, stream, index in the global parameter): the same weights in any
/// layout. Element (r, c) of y is global element (first_row + r)·global_cols + first_col + c. |z| <= cutoff
/// standard deviations by inverse-CDF truncation (no rejection); cutoff 0 = not truncated. seed: i64 [1, 1].
struct InitNormal {
  In seed;
  Out y;
  std::uint64_t stream = 0;  ///< hash_name(parameter)
  float mean = 0, std = 1, cutoff = 0;
  std::int64_t first_row = 0, first_col = 0, global_cols = 0;
  TITAN_OP(InitNormal, "init_normal", seed, y)
};

// --- Collectives: one per node, over one mesh axis
// --------------------------------------------------------------------

/// full = the shards of all ranks of the axis, in rank order (flat concatenation).
struct AllGather {
  In shard;
  Out full;
  Axis axis = Axis::dp_shard;
  TITAN_OP(AllGather, "all_gather", shard, full)
};

/// shard = this rank's part of Σ over ranks of full. Summed in f32 in rank order, rounded once.
struct ReduceScatter {
  In full;
  Result shard;
  Axis axis = Axis::dp_shard;
  TITAN_OP(ReduceScatter, "reduce_scatter", full, shard)
};

struct AllReduce {
  In x;
  Out y;
  Axis axis = Axis::dp_shard;
  Reduction reduction = Reduction::sum;
  TITAN_OP(AllReduce, "all_reduce", x, y)
  static constexpr std::array<SharePair, 1> kShare{{{1, 0}}};
};

/// Grouped point-to-point: all sends and receives are in flight together (rule E13). Peers are ranks on the
/// axis.
struct Exchange {
  std::vector<In> sends;
  std::vector<Out> recvs;
  std::vector<int> send_peers, recv_peers;
  Axis axis = Axis::pp;
  TITAN_OP(Exchange, "exchange", sends, recvs)
};

#undef TITAN_OP

}  // namespace titan
