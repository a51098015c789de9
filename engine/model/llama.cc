#include "engine/model/llama.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/model/weights.h"
#include "engine/program/builder.h"
#include "kernels/base/error.h"
#include "kernels/cost/workspace.h"

namespace titan {
namespace {

using Spec = ProgramBuilder::Spec;

/// What the model reads beside its weights. Every program has tokens, positions and doc_start.
struct Inputs {
  ValueId tokens, positions, doc_start, rope_table;
  ValueId targets = kNoValue, valid_tokens = kNoValue;      // training and evaluation
  ValueId kv_length = kNoValue, cache_position = kNoValue;  // generation
};

/// What the backward of a block reads again.
struct BlockActivations {
  ValueId residual, norm, inv_rms;  // before attention
  ValueId qkv, q, k, v, attention, lse;
  ValueId mid, mlp_norm, mlp_inv_rms;  // residual between attention and feed-forward
  ValueId gate_up, swiglu, down;
};

/// The residual stream between blocks: the stream itself, and the last block's output that is not added yet.
struct Stream {
  ValueId x, delta = kNoValue;
};

class Llama {
 public:
  Llama(std::string name, const ModelConfig& config, std::int64_t rows, std::int64_t sequences,
        std::int64_t positions, DType compute)
      : c_(config),
        b_(std::move(name)),
        rows_(rows),
        sequences_(sequences),
        positions_(positions),
        compute_(compute) {}

  Llama(std::string name, const ModelConfig& config, const StepShape& shape)
      : Llama(std::move(name), config, shape.tokens(), shape.sequences,
              std::max(shape.positions, shape.seq_len), shape.compute) {}

  Program train(const StepShape& shape);
  Program evaluate(const StepShape& shape);
  Program generate(const GenerateShape& shape);

 private:
  // forward
  void declare_inputs(Lifetime lifetime);
  void declare_loss_inputs(Lifetime lifetime);
  ValueId activation(const std::string& name, std::int64_t cols) {
    return b_.value(name, compute_, rows_, cols);
  }
  ValueId statistic(const std::string& name, std::int64_t cols) {
    return b_.value(name, DType::f32, rows_, cols);
  }
  ValueId gemm(const std::string& name, ValueId x, ValueId weight);
  Stream embed();
  Stream forward_block(int layer, Stream in);
  void attend(const std::string& name, int layer, BlockActivations& a);
  ValueId add_norm(const std::string& name, Stream in, ValueId weight, ValueId& sum, ValueId& inv_rms);
  Stream forward_blocks(Stream stream);
  void finish_norm(Stream stream);

  // loss
  std::int64_t chunk_rows(const StepShape& shape) const;
  void loss_head(const StepShape& shape, bool train);
  void loss_chunk(std::int64_t first, std::int64_t count, bool train);

  // backward
  ValueId gradient_like(ValueId of) {
    return b_.value("d." + b_[of].name, b_[of].dtype, b_[of].rows, b_[of].cols);
  }
  void weight_grad(ValueId gradient, ValueId dy, ValueId x);
  ValueId input_grad(ValueId like, ValueId dy, ValueId weight);
  ValueId norm_grad(ValueId dy, ValueId x, ValueId weight, ValueId inv_rms, ValueId dresidual,
                    ValueId dweight);
  ValueId backward_block(int layer, ValueId dstream);
  ValueId backward_attention(const BlockActivations& a, ValueId dattention);
  void backward_embedding(ValueId dstream);

  AttentionShape attention_shape() const {
    return {.sequences = sequences_,
            .heads = static_cast<int>(c_.n_heads),
            .kv_heads = static_cast<int>(c_.n_kv_heads),
            .head_dim = static_cast<int>(c_.head_dim),
            .scale = 1 / std::sqrt(static_cast<float>(c_.head_dim))};
  }

  const ModelConfig& c_;
  ProgramBuilder b_;
  std::int64_t rows_, sequences_, positions_;
  DType compute_;
  Weights w_;
  Inputs in_{};
  std::vector<BlockActivations> blocks_;
  std::int64_t capacity_ = 0;  ///< positions of the key/value cache; 0: no cache
  // head
  ValueId final_residual_ = kNoValue, final_norm_ = kNoValue, final_inv_rms_ = kNoValue;
  ValueId stats_ = kNoValue, dfinal_norm_ = kNoValue;
};

// --- Forward
// ----------------------------------------------------------------------------------------------------------

void Llama::declare_inputs(Lifetime lifetime) {
  const Spec input{.role = Role::input, .lifetime = lifetime};
  in_.tokens = b_.value("tokens", DType::i32, rows_, 1, input);
  in_.positions = b_.value("positions", DType::i32, rows_, 1, input);
  in_.doc_start = b_.value("doc_start", DType::i32, rows_, 1, input);
  in_.rope_table = b_.value("rope_table", DType::f32, positions_, c_.head_dim,
                            {.role = Role::constant, .lifetime = Lifetime::persistent});
}

void Llama::declare_loss_inputs(Lifetime lifetime) {
  in_.targets = b_.value("targets", DType::i32, rows_, 1, {.role = Role::input, .lifetime = lifetime});
  in_.valid_tokens =
      b_.value("valid_tokens", DType::f32, 1, 1, {.role = Role::input, .lifetime = Lifetime::step});
}

/// y = x · weightᵀ
ValueId Llama::gemm(const std::string& name, ValueId x, ValueId weight) {
  const ValueId y = b_.value(name, compute_, b_[x].rows, b_[weight].rows);
  b_.emit(Gemm{.a = b_.in(x), .b = b_.in(weight), .c = b_.result(y), .workspace = {}, .transpose_b = true});
  return y;
}

Stream Llama::embed() {
  b_.set_tag({.layer = -1, .phase = Phase::forward});
  const ValueId x = activation("embedding", c_.dim);
  b_.emit(Embedding{.tokens = b_.in(in_.tokens), .table = b_.in(w_.embedding.weight), .y = b_.out(x)});
  return {.x = x};
}

/// sum = x + delta, y = norm(sum). Without delta the stream itself is the sum.
ValueId Llama::add_norm(const std::string& name, Stream in, ValueId weight, ValueId& sum, ValueId& inv_rms) {
  const bool adds = in.delta != kNoValue;
  sum = adds ? activation(name + ".residual", c_.dim) : in.x;
  const ValueId y = activation(name + ".norm", c_.dim);
  inv_rms = statistic(name + ".inv_rms", 1);
  b_.emit(RmsNorm{.x = b_.in(in.x),
                  .delta = b_.in(in.delta),
                  .weight = b_.in(weight),
                  .sum = adds ? b_.out(sum) : Out{},
                  .y = b_.out(y),
                  .inv_rms = b_.out(inv_rms),
                  .epsilon = c_.norm_eps});
  return y;
}

/// Attention over the block's own keys, or over the key/value cache.
void Llama::attend(const std::string& name, int layer, BlockActivations& a) {
  a.attention = activation(name + ".attn.out", c_.q_dim());
  a.lse = statistic(name + ".attn.lse", c_.n_heads);
  ValueId keys = a.k, values = a.v, key_position = in_.positions;
  if (capacity_ > 0) {
    const Spec cache{.role = Role::cache, .lifetime = Lifetime::persistent};
    keys = b_.value(fmt::format("cache.{}.k", layer), compute_, sequences_ * capacity_, c_.kv_dim(), cache);
    values = b_.value(fmt::format("cache.{}.v", layer), compute_, sequences_ * capacity_, c_.kv_dim(), cache);
    key_position = in_.cache_position;
    b_.emit(CacheWrite{.x = b_.in(a.k),
                       .positions = b_.in(in_.positions),
                       .cache = b_.state(keys),
                       .sequences = sequences_});
    b_.emit(CacheWrite{.x = b_.in(a.v),
                       .positions = b_.in(in_.positions),
                       .cache = b_.state(values),
                       .sequences = sequences_});
  }
  b_.emit(Attention{.q = b_.in(a.q),
                    .k = b_.in(keys),
                    .v = b_.in(values),
                    .q_position = b_.in(in_.positions),
                    .k_position = b_.in(key_position),
                    .doc_start = b_.in(in_.doc_start),
                    .kv_length = b_.in(in_.kv_length),
                    .out = b_.out(a.attention),
                    .lse = b_.out(a.lse),
                    .shape = attention_shape()});
}

Stream Llama::forward_block(int layer, Stream in) {
  b_.set_tag({.layer = layer, .phase = Phase::forward});
  const BlockWeights& w = w_.blocks[static_cast<std::size_t>(layer)];
  const std::string name = fmt::format("layers.{}", layer);
  BlockActivations a{};

  a.norm = add_norm(name + ".attn", in, w.input_norm.weight, a.residual, a.inv_rms);
  const ValueId projected = gemm(name + ".attn.qkv_proj", a.norm, w.qkv.weight);
  a.qkv = activation(name + ".attn.qkv", c_.qkv_dim());
  b_.emit(Rope{.x = b_.in(projected),
               .positions = b_.in(in_.positions),
               .table = b_.in(in_.rope_table),
               .y = b_.out(a.qkv),
               .head_dim = static_cast<int>(c_.head_dim),
               .rotated_heads = static_cast<int>(c_.n_heads + c_.n_kv_heads)});
  a.q = b_.view(name + ".attn.q", a.qkv, 0, rows_, 0, c_.q_dim());
  a.k = b_.view(name + ".attn.k", a.qkv, 0, rows_, c_.q_dim(), c_.kv_dim());
  a.v = b_.view(name + ".attn.v", a.qkv, 0, rows_, c_.q_dim() + c_.kv_dim(), c_.kv_dim());
  attend(name, layer, a);
  const ValueId o = gemm(name + ".attn.o_proj", a.attention, w.o.weight);

  a.mlp_norm =
      add_norm(name + ".mlp", {.x = a.residual, .delta = o}, w.post_norm.weight, a.mid, a.mlp_inv_rms);
  a.gate_up = gemm(name + ".mlp.gate_up", a.mlp_norm, w.gate_up.weight);
  a.swiglu = activation(name + ".mlp.swiglu", c_.ffn_dim);
  b_.emit(SwiGlu{.gate_up = b_.in(a.gate_up), .y = b_.out(a.swiglu)});
  a.down = gemm(name + ".mlp.down_proj", a.swiglu, w.down.weight);

  blocks_.push_back(a);
  return {.x = a.mid, .delta = a.down};
}

Stream Llama::forward_blocks(Stream stream) {
  for (int layer = 0; layer < static_cast<int>(c_.n_layers); ++layer) stream = forward_block(layer, stream);
  return stream;
}

void Llama::finish_norm(Stream stream) {
  final_norm_ = add_norm("final", stream, w_.norm.weight, final_residual_, final_inv_rms_);
}

// --- Loss
// -------------------------------------------------------------------------------------------------------------

std::int64_t Llama::chunk_rows(const StepShape& shape) const {
  const std::int64_t wanted =
      shape.loss_chunk > 0 ? shape.loss_chunk : std::max<std::int64_t>(256, (rows_ + 7) / 8);
  return std::min(rows_, (wanted + 15) / 16 * 16);
}

/// Cross entropy by chunks of rows: logits of one chunk exist at a time. Training turns them into their
/// gradient in place and takes both gradients of the head at once.
void Llama::loss_head(const StepShape& shape, bool train) {
  b_.set_tag({.layer = -1, .phase = Phase::loss});
  stats_ = statistic("loss.stats", 3);
  if (train) dfinal_norm_ = gradient_like(final_norm_);
  const std::int64_t step = chunk_rows(shape);
  for (std::int64_t first = 0; first < rows_; first += step)
    loss_chunk(first, std::min(step, rows_ - first), train);
  const ValueId loss = b_.value("loss", DType::f32, 1, 1, {.role = Role::output, .lifetime = Lifetime::step});
  b_.emit(CrossEntropyLoss{.stats = b_.in(stats_),
                           .targets = b_.in(in_.targets),
                           .valid_tokens = b_.in(in_.valid_tokens),
                           .loss = b_.accumulate(loss)});
}

void Llama::loss_chunk(std::int64_t first, std::int64_t count, bool train) {
  const std::string name = fmt::format("loss.{}", first);
  const ValueId x = b_.view(name + ".norm", final_norm_, first, count, 0, c_.dim);
  const ValueId targets = b_.view(name + ".targets", in_.targets, first, count, 0, 1);
  const ValueId stats = b_.view(name + ".stats", stats_, first, count, 0, 3);
  const ValueId logits = gemm(name + ".logits", x, w_.head.weight);
  b_.emit(LogitStats{.logits = b_.in(logits), .targets = b_.in(targets), .stats = b_.out(stats)});
  if (!train) return;
  const ValueId dlogits = gradient_like(logits);
  b_.emit(CrossEntropyGrad{.logits = b_.in(logits),
                           .stats = b_.in(stats),
                           .targets = b_.in(targets),
                           .valid_tokens = b_.in(in_.valid_tokens),
                           .dlogits = b_.out(dlogits)});
  weight_grad(w_.head.gradient, dlogits, x);
  const ValueId dx = b_.view("d." + name + ".norm", dfinal_norm_, first, count, 0, c_.dim);
  b_.emit(Gemm{.a = b_.in(dlogits), .b = b_.in(w_.head.weight), .c = b_.result(dx), .workspace = {}},
          Phase::input_grad);
}

// --- Backward
// ---------------------------------------------------------------------------------------------------------

/// gradient += dyᵀ · x, in f32.
void Llama::weight_grad(ValueId gradient, ValueId dy, ValueId x) {
  b_.emit(Gemm{.a = b_.in(dy),
               .b = b_.in(x),
               .c = b_.result(gradient, true),
               .workspace = {},
               .transpose_a = true},
          Phase::weight_grad);
}

/// dx = dy · weight, shaped as `like`.
ValueId Llama::input_grad(ValueId like, ValueId dy, ValueId weight) {
  const ValueId dx = gradient_like(like);
  b_.emit(Gemm{.a = b_.in(dy), .b = b_.in(weight), .c = b_.result(dx), .workspace = {}}, Phase::input_grad);
  return dx;
}

ValueId Llama::norm_grad(ValueId dy, ValueId x, ValueId weight, ValueId inv_rms, ValueId dresidual,
                         ValueId dweight) {
  const ValueId dx = gradient_like(x);
  const ValueId partial = b_.value("d." + b_[weight].name + ".partial", DType::f32,
                                   rms_norm_grad_blocks(rows_), c_.dim, {.role = Role::scratch});
  b_.emit(RmsNormGrad{.dy = b_.in(dy),
                      .x = b_.in(x),
                      .weight = b_.in(weight),
                      .inv_rms = b_.in(inv_rms),
                      .dresidual = b_.in(dresidual),
                      .dx = b_.out(dx),
                      .dweight = b_.accumulate(dweight),
                      .partial = b_.scratch(partial)});
  return dx;
}

/// From the gradient of the attention output to that of the q|k|v projection.
ValueId Llama::backward_attention(const BlockActivations& a, ValueId dattention) {
  const std::string name = b_[a.qkv].name;
  const ValueId delta = b_.value("d." + name + ".delta", DType::f32, rows_, c_.n_heads);
  b_.emit(AttentionDelta{.dout = b_.in(dattention),
                         .out = b_.in(a.attention),
                         .delta = b_.out(delta),
                         .head_dim = static_cast<int>(c_.head_dim)});
  const ValueId drotated = gradient_like(a.qkv);
  const ValueId dq = b_.view("d." + b_[a.q].name, drotated, 0, rows_, 0, c_.q_dim());
  const ValueId dk = b_.view("d." + b_[a.k].name, drotated, 0, rows_, c_.q_dim(), c_.kv_dim());
  const ValueId dv = b_.view("d." + b_[a.v].name, drotated, 0, rows_, c_.q_dim() + c_.kv_dim(), c_.kv_dim());
  b_.emit(AttentionGrad{.dout = b_.in(dattention),
                        .q = b_.in(a.q),
                        .k = b_.in(a.k),
                        .v = b_.in(a.v),
                        .lse = b_.in(a.lse),
                        .delta = b_.in(delta),
                        .q_position = b_.in(in_.positions),
                        .k_position = b_.in(in_.positions),
                        .doc_start = b_.in(in_.doc_start),
                        .dq = b_.result(dq),
                        .dk = b_.result(dk),
                        .dv = b_.result(dv),
                        .shape = attention_shape()});
  const ValueId dprojected = b_.value("d." + name + "_proj", compute_, rows_, c_.qkv_dim());
  b_.emit(Rope{.x = b_.in(drotated),
               .positions = b_.in(in_.positions),
               .table = b_.in(in_.rope_table),
               .y = b_.out(dprojected),
               .head_dim = static_cast<int>(c_.head_dim),
               .rotated_heads = static_cast<int>(c_.n_heads + c_.n_kv_heads),
               .inverse = true});
  return dprojected;
}

/// `dstream`: the gradient of the block's output. Returns that of its input.
ValueId Llama::backward_block(int layer, ValueId dstream) {
  b_.set_tag({.layer = layer, .phase = Phase::input_grad});
  const BlockWeights& w = w_.blocks[static_cast<std::size_t>(layer)];
  const BlockActivations& a = blocks_[static_cast<std::size_t>(layer)];

  weight_grad(w.down.gradient, dstream, a.swiglu);
  const ValueId dswiglu = input_grad(a.swiglu, dstream, w.down.weight);
  const ValueId dgate_up = gradient_like(a.gate_up);
  b_.emit(SwiGluGrad{.dy = b_.in(dswiglu), .gate_up = b_.in(a.gate_up), .dgate_up = b_.out(dgate_up)});
  weight_grad(w.gate_up.gradient, dgate_up, a.mlp_norm);
  const ValueId dmlp_norm = input_grad(a.mlp_norm, dgate_up, w.gate_up.weight);
  const ValueId dmid =
      norm_grad(dmlp_norm, a.mid, w.post_norm.weight, a.mlp_inv_rms, dstream, w.post_norm.gradient);

  weight_grad(w.o.gradient, dmid, a.attention);
  const ValueId dattention = input_grad(a.attention, dmid, w.o.weight);
  const ValueId dqkv = backward_attention(a, dattention);
  weight_grad(w.qkv.gradient, dqkv, a.norm);
  const ValueId dnorm = input_grad(a.norm, dqkv, w.qkv.weight);
  return norm_grad(dnorm, a.residual, w.input_norm.weight, a.inv_rms, dmid, w.input_norm.gradient);
}

void Llama::backward_embedding(ValueId dstream) {
  b_.set_tag({.layer = -1, .phase = Phase::weight_grad});
  const ValueId order = b_.value("d.embedding.order", DType::i32, 1,
                                 embedding_grad_order(rows_, c_.vocab_size), {.role = Role::scratch});
  b_.emit(EmbeddingGrad{.tokens = b_.in(in_.tokens),
                        .dy = b_.in(dstream),
                        .dtable = b_.accumulate(w_.embedding.gradient),
                        .order = b_.scratch(order)});
}

// --- Programs
// ---------------------------------------------------------------------------------------------------------

Program Llama::train(const StepShape& shape) {
  w_ = declare_weights(b_, c_, compute_, true);
  declare_inputs(Lifetime::micro_batch);
  declare_loss_inputs(Lifetime::micro_batch);
  b_.begin_segment("forward");
  const Stream stream = forward_blocks(embed());

  b_.begin_segment("backward");
  b_.set_tag({.layer = -1, .phase = Phase::forward});
  finish_norm(stream);
  loss_head(shape, true);
  b_.set_tag({.layer = -1, .phase = Phase::input_grad});
  ValueId dstream =
      norm_grad(dfinal_norm_, final_residual_, w_.norm.weight, final_inv_rms_, kNoValue, w_.norm.gradient);
  for (int layer = static_cast<int>(c_.n_layers) - 1; layer >= 0; --layer)
    dstream = backward_block(layer, dstream);
  backward_embedding(dstream);
  set_accumulation_timeline(b_.program(), shape.micro_batches);
  return b_.take();
}

Program Llama::evaluate(const StepShape& shape) {
  w_ = declare_weights(b_, c_, compute_, false);
  declare_inputs(Lifetime::step);
  declare_loss_inputs(Lifetime::step);
  b_.begin_segment("evaluate");
  finish_norm(forward_blocks(embed()));
  loss_head(shape, false);
  set_straight_timeline(b_.program());
  return b_.take();
}

Program Llama::generate(const GenerateShape& shape) {
  capacity_ = shape.capacity;
  w_ = declare_weights(b_, c_, compute_, false);
  declare_inputs(Lifetime::step);
  const Spec input{.role = Role::input, .lifetime = Lifetime::step};
  in_.kv_length = b_.value("kv_length", DType::i32, 1, 1, input);
  in_.cache_position = b_.value("cache_position", DType::i32, sequences_ * capacity_, 1,
                                {.role = Role::constant, .lifetime = Lifetime::persistent});
  const ValueId last_row = b_.value("last_row", DType::i32, 1, 1, input);
  b_.begin_segment("generate");
  finish_norm(forward_blocks(embed()));
  const ValueId last = b_.value("final.last_row", compute_, 1, c_.dim);
  b_.emit(Embedding{.tokens = b_.in(last_row), .table = b_.in(final_norm_), .y = b_.out(last)});
  const ValueId logits =
      b_.value("logits", DType::f32, 1, c_.vocab_size, {.role = Role::output, .lifetime = Lifetime::step});
  b_.emit(Gemm{.a = b_.in(last),
               .b = b_.in(w_.head.weight),
               .c = b_.result(logits),
               .workspace = {},
               .transpose_b = true});
  set_straight_timeline(b_.program());
  return b_.take();
}

}  // namespace

Program build_train_program(const ModelConfig& config, const StepShape& shape, const Mesh& mesh) {
  TITAN_CHECK_EQ(mesh.size(Axis::tp) * mesh.size(Axis::cp) * mesh.size(Axis::pp), 1);
  return Llama("train", config, shape).train(shape);
}

Program build_evaluate_program(const ModelConfig& config, const StepShape& shape, const Mesh& mesh) {
  TITAN_CHECK_EQ(mesh.size(Axis::tp) * mesh.size(Axis::cp) * mesh.size(Axis::pp), 1);
  return Llama("evaluate", config, shape).evaluate(shape);
}

Program build_generate_program(const std::string& name, const ModelConfig& config,
                               const GenerateShape& shape) {
  return Llama(name, config, shape.rows, 1, shape.capacity, shape.compute).generate(shape);
}

}  // namespace titan
