// quantize: what it chooses, and what a linear layer then computes, against the same in double precision with
// the same roundings.
#include "engine/passes/quantize.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "engine/executor/executor.h"
#include "engine/program/builder.h"
#include "engine/program/verify.h"
#include "kernels/base/bf16.h"
#include "kernels/base/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/model_runner.h"

using namespace titan;
using namespace titan::test;

namespace {

constexpr Float8Scaling kScalings[] = {Float8Scaling::tensorwise, Float8Scaling::rowwise,
                                       Float8Scaling::rowwise_with_gw_hp};

// --- A linear layer by hand -------------------------------------------------------------------------------

struct Matrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> values;

  Matrix(std::int64_t r, std::int64_t c) : rows(r), cols(c), values(static_cast<std::size_t>(r * c)) {}
  double& operator()(std::int64_t r, std::int64_t c) {
    return values[static_cast<std::size_t>(r * cols + c)];
  }
  double operator()(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * cols + c)];
  }
  Matrix transposed() const {
    Matrix t(cols, rows);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) t(c, r) = (*this)(r, c);
    return t;
  }
  Matrix block(std::int64_t row, std::int64_t count, std::int64_t col, std::int64_t width) const {
    Matrix b(count, width);
    for (std::int64_t r = 0; r < count; ++r)
      for (std::int64_t c = 0; c < width; ++c) b(r, c) = (*this)(row + r, col + c);
    return b;
  }
};

/// Rows of very different size, all bf16.
Matrix random_matrix(std::int64_t rows, std::int64_t cols, unsigned seed) {
  Matrix m(rows, cols);
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      m(r, c) = to_float(to_bf16(std::ldexp(draw(random), static_cast<int>((r + 3 * c) % 5))));
  return m;
}

double round_to_float8(double x, bool e5m2) {
  const double largest = e5m2 ? 57344 : 448, clamped = std::clamp(x, -largest, largest);
  if (clamped == 0) return 0;
  const double spacing = std::ldexp(1, std::max(std::ilogb(clamped), e5m2 ? -14 : -6) - (e5m2 ? 2 : 3));
  return std::nearbyint(clamped / spacing) * spacing;
}

/// What a matrix's 8-bit copy stands for: scaled by the whole matrix or by rows, rounded, and scaled back.
Matrix through_float8(Matrix m, bool by_row, bool e5m2) {
  const std::int64_t step = by_row ? m.cols : m.rows * m.cols;
  for (std::size_t first = 0; first < m.values.size(); first += static_cast<std::size_t>(step)) {
    double amax = 1e-12;
    for (std::int64_t i = 0; i < step; ++i)
      amax = std::max(amax, std::abs(m.values[first + static_cast<std::size_t>(i)]));
    double factor = static_cast<float>((e5m2 ? 57344 : 448) / amax);
    if (by_row) factor = std::ldexp(1, std::ilogb(factor));
    for (std::int64_t i = 0; i < step; ++i) {
      double& x = m.values[first + static_cast<std::size_t>(i)];
      x = round_to_float8(static_cast<float>(x * factor), e5m2) / factor;
    }
  }
  return m;
}

/// a · bᵀ
Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.rows);
  for (std::int64_t i = 0; i < c.rows; ++i)
    for (std::int64_t j = 0; j < c.cols; ++j)
      for (std::int64_t k = 0; k < a.cols; ++k) c(i, j) += a(i, k) * b(j, k);
  return c;
}

constexpr std::int64_t kTokens = 32, kIn = 48, kOut[] = {32, 16, 48}, kAll = 96;
constexpr const char* kNames[] = {"q_proj", "k_proj", "v_proj"};

/// y, dx and dweight.
struct Results {
  Matrix y{kTokens, kAll}, dx{kTokens, kIn}, dweight{kAll, kIn};
};

void add_at(Matrix& to, const Matrix& m, std::int64_t row, std::int64_t col) {
  for (std::int64_t r = 0; r < m.rows; ++r)
    for (std::int64_t c = 0; c < m.cols; ++c) to(row + r, col + c) += m(r, c);
}

/// Runs of output rows [first, first + count) that are multiplied together, in 8 bits or not.
struct Run {
  std::int64_t first, count;
  bool float8;
};

Results expected(const Matrix& x, const Matrix& w, const Matrix& dy, Float8Scaling scaling,
                 const std::vector<Run>& runs) {
  Results want;
  const bool by_row = scaling != Float8Scaling::tensorwise;
  for (const auto& [first, count, float8] : runs) {
    const auto round = [&, q = float8](const Matrix& m, bool gradient) {
      return q ? through_float8(m, by_row, gradient && !by_row) : m;
    };
    const auto round_for_weights = [&](const Matrix& m, bool gradient) {
      return scaling == Float8Scaling::rowwise_with_gw_hp ? m : round(m, gradient);
    };
    const Matrix part = w.block(first, count, 0, kIn), dpart = dy.block(0, kTokens, first, count);
    add_at(want.y, product(round(x, false), round(part, false)), 0, first);
    add_at(want.dx, product(round(dpart, true), round(part.transposed(), false)), 0, 0);
    add_at(want.dweight,
           product(round_for_weights(dpart.transposed(), true), round_for_weights(x.transposed(), false)),
           first, 0);
  }
  return want;
}

Program linear_program() {
  ProgramBuilder b("train");
  using Spec = ProgramBuilder::Spec;
  const Spec input{.role = Role::input, .lifetime = Lifetime::step},
      output{.role = Role::output, .lifetime = Lifetime::step};
  const ValueId x = b.value("x", DType::bf16, kTokens, kIn, input);
  const ValueId dy = b.value("dy", DType::bf16, kTokens, kAll, input);
  const ValueId w =
      b.value("qkv", DType::bf16, kAll, kIn, {.role = Role::weight, .lifetime = Lifetime::persistent});
  const ValueId dw = b.value("d.qkv", DType::f32, kAll, kIn, output);
  const ValueId y = b.value("y", DType::bf16, kTokens, kAll, output);
  const ValueId dx = b.value("d.x", DType::bf16, kTokens, kIn, output);
  std::int64_t row = 0;
  for (int i = 0; i < 3; ++i, row += kOut[i - 1]) {
    const std::string name = std::string("model.layers.0.self_attn.") + kNames[i] + ".weight";
    b.program().parameters.push_back({.name = name,
                                      .global_rows = kOut[i],
                                      .global_cols = kIn,
                                      .layer = 0,
                                      .weight = b.view(name, w, row, kOut[i], 0, kIn),
                                      .gradient = b.view("d." + name, dw, row, kOut[i], 0, kIn)});
  }
  b.begin_segment("forward");
  b.set_tag({.layer = 0, .phase = Phase::forward});
  b.emit(Gemm{.a = b.in(x), .b = b.in(w), .c = b.result(y), .workspace = {}, .transpose_b = true});
  b.begin_segment("backward");
  b.emit(Gemm{.a = b.in(dy), .b = b.in(x), .c = b.result(dw, true), .workspace = {}, .transpose_a = true},
         Phase::weight_grad);
  b.emit(Gemm{.a = b.in(dy), .b = b.in(w), .c = b.result(dx), .workspace = {}}, Phase::input_grad);
  set_straight_timeline(b.program());
  return b.take();
}

std::vector<std::uint16_t> to_bits(const Matrix& m) {
  std::vector<std::uint16_t> bits;
  for (const double v : m.values) bits.push_back(to_bf16(static_cast<float>(v)).bits);
  return bits;
}

template <class T>
void read_into(const Executor& executor, const Program& p, const char* name, Matrix& to) {
  std::vector<T> stored(to.values.size());
  executor.read(0, p.at(name), stored.data());
  std::transform(stored.begin(), stored.end(), to.values.begin(), [](T v) { return to_float(v); });
}

Results run(Program program, const Matrix& x, const Matrix& w, const Matrix& dy) {
  Job job;
  job.programs.push_back(std::move(program));
  place(job);
  const Program& p = job.programs.front();
  const auto backend = cpu::make_cpu_backend({});
  Executor executor(job, *backend);
  executor.write(0, p.at("x"), to_bits(x).data());
  executor.write(0, p.at("qkv"), to_bits(w).data());
  executor.write(0, p.at("dy"), to_bits(dy).data());
  executor.run(0);
  Results got;
  read_into<bf16>(executor, p, "y", got.y);
  read_into<bf16>(executor, p, "d.x", got.dx);
  read_into<float>(executor, p, "d.qkv", got.dweight);
  return got;
}

/// The largest difference, relative to the largest element.
double distance(const Matrix& got, const Matrix& want) {
  double most = 0, difference = 0;
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    most = std::max(most, std::abs(want.values[i]));
    difference = std::max(difference, std::abs(got.values[i] - want.values[i]));
  }
  return difference / most;
}

void check_linear(const Float8Recipe& recipe, const std::vector<Run>& runs) {
  const Matrix x = random_matrix(kTokens, kIn, 1), w = random_matrix(kAll, kIn, 2),
               dy = random_matrix(kTokens, kAll, 3);
  Program p = linear_program();
  const std::vector<Float8Linear> linears = plan_float8(p, recipe);
  p = quantize(std::move(p), linears, recipe);
  verify(p);
  const Results got = run(std::move(p), x, w, dy), want = expected(x, w, dy, recipe.scaling, runs);
  const Results exact = expected(x, w, dy, recipe.scaling, {{0, kAll, false}});
  INFO(to_string(recipe.scaling) << ", " << runs.size() << " runs");
  // y is rounded to bf16, dx after every run; dweight stays f32.
  CHECK(distance(got.y, want.y) < 1.01 / 256);
  CHECK(distance(got.dx, want.dx) < static_cast<double>(runs.size()) * 1.01 / 256);
  CHECK(distance(got.dweight, want.dweight) < 2e-6);
  CHECK(distance(want.y, exact.y) > 1e-3);  // and 8 bits show
}

int count(const Program& p, bool (*matches)(const Op&)) {
  int found = 0;
  for (const Segment& segment : p.segments)
    for (const Node& node : segment.nodes) found += matches(node.op) ? 1 : 0;
  return found;
}

ModelConfig config_of_16s() {
  ModelConfig config = tiny_config();
  config.vocab_size = 112;
  return config;
}

}  // namespace

TEST_CASE("a linear layer in 8 bits is the one in double precision with the same roundings") {
  for (const Float8Scaling scaling : kScalings) check_linear({.scaling = scaling}, {{0, kAll, true}});
}

TEST_CASE("a filter splits a fused product where it must") {
  for (const Float8Scaling scaling : kScalings) {
    check_linear({.scaling = scaling, .filters = {"wk"}}, {{0, 32, true}, {32, 16, false}, {48, 48, true}});
    check_linear({.scaling = scaling, .filters = {"q_proj"}}, {{0, 32, false}, {32, 64, true}});
    check_linear({.scaling = scaling, .filters = {"wq", "k_proj"}}, {{0, 48, false}, {48, 48, true}});
  }
}

TEST_CASE("weights per use give the same numbers") {
  for (const Float8Scaling scaling : kScalings)
    check_linear({.scaling = scaling, .weights_per_use = true}, {{0, kAll, true}});
}

TEST_CASE("filters know both names of a layer") {
  const Program p = build_train_program(config_of_16s(), {.sequences = 1, .seq_len = 32}, Mesh());
  const auto quantized = [&](std::vector<std::string> filters) {
    std::vector<std::string> names;
    for (const Float8Linear& linear : plan_float8(p, {.filters = std::move(filters)}))
      if (linear.quantized()) names.insert(names.end(), linear.names.begin(), linear.names.end());
    return names;
  };
  CHECK(quantized({}).size() == 3 * 7 + 1);
  CHECK(quantized({"output"}).size() == 3 * 7);
  CHECK(quantized({"lm_head"}) == quantized({"output"}));
  CHECK(quantized({"attention.wq"}) == quantized({"self_attn.q_proj"}));
  CHECK(quantized({"layers.1."}).size() == 2 * 7 + 1);
  CHECK(quantized({"feed_forward"}) == quantized({"mlp"}));
  CHECK(quantized({"weight"}).size() == 3 * 7 + 1);  // modules are named, not tensors
  CHECK(quantized({""}).empty());
}

TEST_CASE("a head tied to the embedding goes by its own name") {
  ModelConfig config = tiny_config(true);
  config.vocab_size = 112;
  const Program p = build_train_program(config, {.sequences = 1, .seq_len = 32}, Mesh());
  CHECK(plan_float8(p, {}).front().names == std::vector<std::string>{"lm_head"});
  CHECK_FALSE(plan_float8(p, {.filters = {"output"}}).front().quantized());
  CHECK(plan_float8(p, {.filters = {"embed"}}).front().quantized());
}

TEST_CASE("what is not divisible by 16 stays as it is, and the plan says so") {
  const Program odd_head = build_train_program(tiny_config(), {.sequences = 1, .seq_len = 32}, Mesh());
  const std::vector<std::string> lines =
      describe(plan_float8(odd_head, {.filters = {"layers.1.attention.wo"}}));
  CHECK(lines == std::vector<std::string>{
                     "layers 0-2 self_attn.q_proj|k_proj|v_proj: float8",
                     "layers 0,2 self_attn.o_proj: float8", "layers 0-2 mlp.gate_proj|up_proj: float8",
                     "layers 0-2 mlp.down_proj: float8",
                     "layers 1 self_attn.o_proj: bfloat16, filter_fqns has \"layers.1.attention.wo\"",
                     "lm_head: bfloat16, 101 x 48 is not divisible by 16"});
  const Program odd_tokens = build_train_program(config_of_16s(), {.sequences = 1, .seq_len = 20}, Mesh());
  for (const Float8Linear& linear : plan_float8(odd_tokens, {})) {
    CHECK_FALSE(linear.quantized());
    CHECK_THAT(linear.excluded, Catch::Contains("tokens"));
  }
  const Program unchanged = quantize(odd_tokens, plan_float8(odd_tokens, {}), {});
  CHECK(unchanged.values.size() == odd_tokens.values.size());
  CHECK(unchanged.segments.size() == odd_tokens.segments.size());
}

TEST_CASE("norms and SwiGLU write the 8-bit rows of their results") {
  const Program p = build_train_program(config_of_16s(), {.sequences = 1, .seq_len = 32}, Mesh());
  const auto writes_rows = [](const Op& op) {
    return std::visit(
        [](const auto& o) {
          if constexpr (requires { o.quantized; }) return bool(o.quantized);
          return false;
        },
        op);
  };
  const auto quantizes = [](const Op& op) { return std::holds_alternative<Quantize>(op); };
  const auto quantizes_rows = [](const Op& op) {
    const auto* quantize = std::get_if<Quantize>(&op);
    return quantize != nullptr && quantize->y;
  };
  const auto with = [&](Float8Scaling scaling) {
    const Float8Recipe recipe{.scaling = scaling};
    Program q = quantize(p, plan_float8(p, recipe), recipe);
    verify(q);
    return q;
  };
  CHECK(count(with(Float8Scaling::tensorwise), writes_rows) == 0);
  for (const Float8Scaling scaling : {Float8Scaling::rowwise, Float8Scaling::rowwise_with_gw_hp}) {
    const Program q = with(scaling);
    // Of three blocks two norms, SwiGLU and its gradient.
    CHECK(count(q, writes_rows) == 3 * 4);
    // Weights; of each block attention's output, and the gradients of q|k|v, of it and of the block's output;
    // of the head its view of the last norm and the gradient of its logits.
    CHECK(count(q, quantizes_rows) == 13 + 3 * 4 + 2);
  }
  // In high precision the weights' gradients need no columns: what is left are those rows.
  CHECK(count(with(Float8Scaling::rowwise_with_gw_hp), quantizes) == 13 + 3 * 4 + 2);
  CHECK(count(with(Float8Scaling::rowwise), quantizes) == 13 + 3 * 8 + 2);
}

TEST_CASE("every product of a quantized layer is in 8 bits, and amax is found by producers") {
  const Program p = build_train_program(config_of_16s(), {.sequences = 1, .seq_len = 32}, Mesh());
  const auto is_float8_gemm = [](const Op& op) {
    const auto* gemm = std::get_if<Gemm>(&op);
    return gemm != nullptr && is_float8(gemm->a.dtype);
  };
  const auto is_gemm = [](const Op& op) { return std::holds_alternative<Gemm>(op); };
  const auto is_amax = [](const Op& op) { return std::holds_alternative<Amax>(op); };
  const int gemms = count(p, is_gemm);
  CHECK(gemms == 3 * (3 * 4 + 1));
  const Float8Recipe tensorwise{}, rowwise{.scaling = Float8Scaling::rowwise},
      high_precision{.scaling = Float8Scaling::rowwise_with_gw_hp};
  const auto with = [&](const Float8Recipe& recipe) { return quantize(p, plan_float8(p, recipe), recipe); };
  CHECK(count(with(tensorwise), is_float8_gemm) == gemms);
  CHECK(count(with(rowwise), is_float8_gemm) == gemms);
  CHECK(count(with(high_precision), is_float8_gemm) == gemms * 2 / 3);
  CHECK(count(with(rowwise), is_amax) == 0);
  // 13 weights, 3 attention outputs, and of the head its view of the last norm and the gradient of its
  // logits.
  CHECK(count(with(tensorwise), is_amax) == 13 + 3 + 2);
  for (const Segment& segment : with(tensorwise).segments)
    for (const Node& node : segment.nodes)
      if (const auto* gemm = std::get_if<Gemm>(&node.op))
        CHECK(gemm->fast_accumulation == (node.tag.phase == Phase::forward || node.tag.phase == Phase::loss));
}

TEST_CASE("scalings have torchao's names") {
  for (const Float8Scaling scaling : kScalings) CHECK(parse_float8_scaling(to_string(scaling)) == scaling);
  CHECK_THROWS_WITH(parse_float8_scaling("colwise"), Catch::Contains("rowwise_with_gw_hp"));
}

namespace {

/// Text with something to learn: after token t comes one of three, chosen by a random word.
std::vector<std::int32_t> babble(std::int64_t count, std::int32_t vocabulary, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> tokens;
  std::int32_t t = 1;
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(t);
    t = (t * 7 + static_cast<std::int32_t>(random() % 3) + 1) % vocabulary;
  }
  return tokens;
}

/// The mean loss of the last five of 30 steps, after a warmup.
double train(const std::optional<Float8Recipe>& float8) {
  const ModelConfig config{.flavor = "small",
                           .dim = 64,
                           .n_layers = 2,
                           .n_heads = 4,
                           .n_kv_heads = 2,
                           .head_dim = 16,
                           .ffn_dim = 176,
                           .vocab_size = 128};
  const StepShape shape{.sequences = 4, .seq_len = 64};
  ModelRunner runner(config, shape, {.float8 = float8, .threads = 1});
  double last = 0;
  for (int step = 0; step < 30; ++step) {
    const std::vector<std::int32_t> text = babble(shape.tokens() + 1, 128, static_cast<unsigned>(step));
    runner.set_batch(std::span(text).first(text.size() - 1), std::span(text).subspan(1));
    const float loss = runner.step(3e-3f * std::min(1.0f, static_cast<float>(step + 1) / 5),
                                   static_cast<float>(1 - std::pow(0.9, step + 1)),
                                   static_cast<float>(1 - std::pow(0.95, step + 1)));
    if (step >= 25) last += loss / 5;
  }
  return last;
}

}  // namespace

TEST_CASE("thirty steps of each Float8 recipe learn what bf16 learns, within 3 %") {
  const double bf16_loss = train(std::nullopt);
  CHECK(bf16_loss < 0.75 * std::log(128.0));
  for (const Float8Scaling scaling : kScalings) {
    INFO(to_string(scaling));
    CHECK(train(Float8Recipe{.scaling = scaling}) == Approx(bf16_loss).epsilon(0.03));
  }
}
