// The model against transformers' Llama (scripts/goldens/make_model_goldens.py): logits, loss, every
// gradient, 50 AdamW steps.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/safetensors.h"
#include "engine/model/setup.h"
#include "engine/program/verify.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/model_runner.h"

using namespace titan;
using namespace titan::test;

namespace {

const std::string kFolder = std::string(TITAN_TEST_DATA) + "/model/";

struct Golden {
  nlohmann::json facts, shape;
  std::map<std::string, std::vector<float>> floats;
  std::map<std::string, std::vector<std::int32_t>> ints;
  ModelConfig config;

  std::int64_t batch() const { return shape["batch"]; }
  std::int64_t length() const { return shape["length"]; }
  std::vector<std::int32_t> rows(const std::string& name, int step) const {
    const auto size = static_cast<std::ptrdiff_t>(batch() * length());
    const auto begin = ints.at(name).begin() + step * size;
    return {begin, begin + size};
  }
};

Golden load_golden(const std::string& variant) {
  Golden g;
  const nlohmann::json all = nlohmann::json::parse(std::ifstream(kFolder + "facts.json"));
  g.facts = all[variant];
  g.shape = all["shape"];
  const SafetensorsReader file(kFolder + variant + ".safetensors");
  for (const TensorEntry& t : file.tensors()) {
    const std::byte* bytes = file.bytes(t).data();
    if (t.type == StoredType::i32) {
      std::vector<std::int32_t>& v = g.ints[t.name];
      v.resize(static_cast<std::size_t>(t.bytes / 4));
      std::memcpy(v.data(), bytes, v.size() * 4);
    } else {
      std::vector<float>& v = g.floats[t.name];
      v.resize(static_cast<std::size_t>(t.bytes / 4));
      std::memcpy(v.data(), bytes, v.size() * 4);
    }
  }
  const std::int64_t heads = g.facts["heads"], dim = g.shape["dim"];
  g.config = {.flavor = variant,
              .dim = dim,
              .n_layers = g.shape["layers"],
              .n_heads = heads,
              .n_kv_heads = g.facts["kv_heads"],
              .head_dim = dim / heads,
              .ffn_dim = g.shape["ffn"],
              .vocab_size = g.shape["vocab"],
              .rope_theta = 10000,
              .tie_embeddings = g.facts["tied"]};
  if (g.facts["scaled"])
    g.config.rope_scaling = {
        .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_length = 8192};
  return g;
}

double relative_error(const std::vector<float>& a, const std::vector<float>& truth) {
  REQUIRE(a.size() == truth.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - truth[i], 2);
    norm += std::pow(static_cast<double>(truth[i]), 2);
  }
  return std::sqrt(difference / norm);
}

void set_weights(ModelRunner& runner, const Golden& golden) {
  for (const ParameterSpec& p : parameters(golden.config))
    runner.set_weight(p.name, golden.floats.at("weight." + p.name));
}

StepShape shape_of(const Golden& g, DType compute) {
  return {.sequences = g.batch(), .seq_len = g.length(), .compute = compute, .loss_chunk = 16};
}

/// All logits of the golden batch: the evaluation program with its one chunk of logits kept for the host.
std::vector<float> logits_of(const Golden& g, DType compute) {
  StepShape shape = shape_of(g, compute);
  shape.loss_chunk = shape.tokens();
  Program p = build_evaluate_program(g.config, shape, Mesh());
  p.value(p.at("loss.0.logits")).role = Role::output;
  p = shard_parameters(std::move(p), plan_buckets(p), {.residency = Residency::per_step, .no_decay = {}});
  verify(p);
  Job job;
  std::vector<const Program*> all{&p};
  job.programs.push_back(build_refresh_program(all, g.config));
  job.programs.push_back(std::move(p));
  place(job);
  const auto backend = cpu::make_cpu_backend({});
  Executor executor(job, *backend);
  executor.run(0);
  const Program& evaluate = job.programs[1];
  for (const Parameter& parameter : evaluate.parameters)
    executor.write(1, parameter.master, g.floats.at("weight." + parameter.name).data());
  std::vector<std::int32_t> positions, zeros(static_cast<std::size_t>(shape.tokens()), 0);
  for (std::int64_t i = 0; i < shape.tokens(); ++i)
    positions.push_back(static_cast<std::int32_t>(i % shape.seq_len));
  executor.write(1, evaluate.at("tokens"), g.rows("tokens", 0).data());
  executor.write(1, evaluate.at("targets"), g.rows("targets", 0).data());
  executor.write(1, evaluate.at("positions"), positions.data());
  executor.write(1, evaluate.at("doc_start"), zeros.data());
  const float one = 1;
  executor.write(1, evaluate.at("valid_tokens"), &one);
  executor.run(1);
  const ValueId logits = evaluate.at("loss.0.logits");
  std::vector<float> result(static_cast<std::size_t>(shape.tokens() * g.config.vocab_size));
  if (compute == DType::f32) {
    executor.read(1, logits, result.data());
  } else {
    std::vector<std::uint16_t> narrow(result.size());
    executor.read(1, logits, narrow.data());
    for (std::size_t i = 0; i < narrow.size(); ++i)
      result[i] = std::bit_cast<float>(static_cast<std::uint32_t>(narrow[i]) << 16);
  }
  return result;
}

struct Gradients {
  double loss = 0;
  std::map<std::string, std::vector<float>> by_name;
};

Gradients gradients_of(const Golden& g, DType compute) {
  ModelRunner runner(g.config, shape_of(g, compute), {.optimizer = false});
  set_weights(runner, g);
  runner.set_batch(g.rows("tokens", 0), g.rows("targets", 0));
  Gradients result;
  result.loss = runner.step();
  for (const ParameterSpec& p : parameters(g.config)) result.by_name[p.name] = runner.gradient(p.name);
  return result;
}

}  // namespace

TEST_CASE("float32: logits, loss and every gradient agree with transformers in float64") {
  const std::string variant = GENERATE("gqa", "tied");
  INFO(variant);
  const Golden g = load_golden(variant);
  CHECK(relative_error(logits_of(g, DType::f32), g.floats.at("logits")) < 1e-5);
  const Gradients titan = gradients_of(g, DType::f32);
  CHECK(titan.loss == Approx(g.facts["loss"].get<double>()).epsilon(1e-5));
  for (const auto& [name, gradient] : titan.by_name) {
    INFO(name);
    CHECK(relative_error(gradient, g.floats.at("gradient." + name)) < 1e-5);
  }
}

TEST_CASE("bfloat16: no farther from the truth than 1.2 times PyTorch's bfloat16") {
  const std::string variant = GENERATE("gqa", "tied");
  INFO(variant);
  const Golden g = load_golden(variant);
  const nlohmann::json& torch = g.facts["errors"]["bfloat16"];
  CHECK(relative_error(logits_of(g, DType::bf16), g.floats.at("logits")) <
        1.2 * torch["logits"].get<double>());
  const Gradients titan = gradients_of(g, DType::bf16);
  std::vector<float> mine, truth;
  for (const auto& [name, gradient] : titan.by_name) {
    mine.insert(mine.end(), gradient.begin(), gradient.end());
    const std::vector<float>& t = g.floats.at("gradient." + name);
    truth.insert(truth.end(), t.begin(), t.end());
  }
  CHECK(relative_error(mine, truth) < 1.2 * torch["gradients"].get<double>());
}

TEST_CASE("50 AdamW steps stay within 3 times PyTorch float32's own distance from float64") {
  const std::string variant = GENERATE("gqa", "tied");
  INFO(variant);
  const Golden g = load_golden(variant);
  ModelRunner runner(g.config, shape_of(g, DType::f32), {});
  set_weights(runner, g);
  const std::vector<double> exact = g.facts["curve_float64"], torch = g.facts["curve_float32"];
  double mine = 0, theirs = 0;
  for (int s = 0; s < static_cast<int>(exact.size()); ++s) {
    runner.set_batch(g.rows("tokens", s), g.rows("targets", s));
    const float loss = runner.step(3e-3f, static_cast<float>(1 - std::pow(0.9, s + 1)),
                                   static_cast<float>(1 - std::pow(0.95, s + 1)));
    mine = std::max(mine, std::abs(loss - exact[static_cast<std::size_t>(s)]));
    theirs =
        std::max(theirs, std::abs(torch[static_cast<std::size_t>(s)] - exact[static_cast<std::size_t>(s)]));
  }
  INFO("titan " << mine << ", PyTorch " << theirs);
  CHECK(mine <= 3 * theirs);
  CHECK(exact.back() < exact.front() - 0.3);
}
