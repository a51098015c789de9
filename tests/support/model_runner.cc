#include "tests/support/model_runner.h"

#include <algorithm>

#include "engine/model/setup.h"
#include "engine/optim/optimizer.h"
#include "engine/optim/parameter_norms.h"
#include "engine/passes/offload_state.h"
#include "engine/program/edit.h"
#include "engine/program/verify.h"
#include "kernels/base/error.h"
#include "kernels/cost/machine.h"
#include "kernels/cpu/cpu_backend.h"

namespace titan::test {
namespace {

/// Gradients that the host reads live until the end of the step.
void keep_gradients(Program& program) {
  for (const Bucket& bucket : program.buckets)
    for (Value& v : program.values)
      if (&v == &program.value(bucket.gradient) || v.base == bucket.gradient) v.role = Role::output;
}

/// F0 F1 B0 B1, each micro-batch in a slot of its own.
void use_two_slots(Program& program) {
  TITAN_CHECK_EQ(program.micro_batches, 2);
  program.slots = 2;
  const auto backward_of_first = [&](const TimelineStep& step) {
    return step.segment == program.segment_index("backward") && step.micro_batch == 0;
  };
  const auto at = std::find_if(program.timeline.begin(), program.timeline.end(), backward_of_first);
  std::rotate(at, at + 1, at + 2);
  for (TimelineStep& step : program.timeline) {
    const std::string& name = program.segments[static_cast<std::size_t>(step.segment)].name;
    if (name == "forward" || name == "backward") step.slot = step.micro_batch;
  }
}

}  // namespace

ModelRunner::ModelRunner(const ModelConfig& config, const StepShape& shape, const RunnerOptions& options)
    : shape_(shape) {
  const Machine machine = cpu_machine("avx2", 2, 1e11, 1e11, 2e10, std::int64_t{1} << 34);
  Program p = build_train_program(config, shape, Mesh());
  verify(p);
  if (options.float8) {
    const std::vector<Float8Linear> linears = plan_float8(p, *options.float8);
    p = quantize(std::move(p), linears, *options.float8);
    verify(p);
  }
  p = recompute(std::move(p), options.recompute, machine);
  verify(p);
  if (options.offload_activations) p = offload_activations(std::move(p), *options.offload_activations);
  verify(p);
  const auto plan = plan_buckets(p);
  p = shard_parameters(
      std::move(p), plan,
      {.residency = options.residency, .no_decay = options.no_decay, .weights_apart = options.offload_state});
  verify(p);
  if (options.parameter_norms) append_parameter_norms(p);
  if (options.optimizer)
    append_optimizer(p, {.max_norm = options.max_norm});
  else
    keep_gradients(p);
  verify(p);
  if (options.offload_state) p = offload_state(std::move(p));
  verify(p);
  if (options.two_slots) use_two_slots(p);
  verify(p);
  std::vector<const Program*> all{&p};
  job_.programs.push_back(build_initialize_program(p, config));
  job_.programs.push_back(build_refresh_program(all, config));
  job_.programs.push_back(std::move(p));
  for (const Program& program : job_.programs) verify(program);
  place(job_);
  std::vector<const Program*> placed;
  for (const Program& program : job_.programs) placed.push_back(&program);
  verify_placement(placed, job_.placement);
  cpu::CpuOptions cpu;
  cpu.threads = options.threads;
  cpu.host_thread = options.host_thread;
  backend_ = options.backend ? options.backend() : cpu::make_cpu_backend(cpu);
  executor_ = std::make_unique<Executor>(job_, *backend_);
  initialize(0);
  executor_->run(job_.index("refresh"));
}

ModelRunner::~ModelRunner() = default;

void ModelRunner::initialize(std::int64_t seed) {
  executor_->write(0, job_.programs[0].at("seed"), &seed);
  executor_->run(0);
}

const Parameter& ModelRunner::parameter(const std::string& name) const {
  const auto it = std::find_if(train().parameters.begin(), train().parameters.end(),
                               [&](const Parameter& p) { return p.name == name; });
  TITAN_CHECK(it != train().parameters.end(), "no parameter {}", name);
  return *it;
}

void ModelRunner::set_weight(const std::string& name, std::span<const float> values) {
  const ValueId master = parameter(name).master;
  TITAN_CHECK_EQ(static_cast<std::int64_t>(values.size()) * 4, train().value(master).bytes());
  executor_->write(job_.index("train"), master, values.data());
}

std::vector<float> ModelRunner::weight(const std::string& name) const {
  const ValueId master = parameter(name).master;
  std::vector<float> values(static_cast<std::size_t>(train().value(master).bytes() / 4));
  executor_->read(job_.index("train"), master, values.data());
  return values;
}

void ModelRunner::set_batch(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets) {
  const auto rows = static_cast<std::size_t>(shape_.tokens());
  std::vector<std::int32_t> positions(rows), doc_start(rows, 0);
  for (std::size_t i = 0; i < rows; ++i)
    positions[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(shape_.seq_len));
  const int index = job_.index("train");
  for (int m = 0; m < shape_.micro_batches; ++m) {
    executor_->write(index, train().at("tokens"), tokens.data() + static_cast<std::size_t>(m) * rows, m);
    executor_->write(index, train().at("targets"), targets.data() + static_cast<std::size_t>(m) * rows, m);
    executor_->write(index, train().at("positions"), positions.data(), m);
    executor_->write(index, train().at("doc_start"), doc_start.data(), m);
  }
  const auto valid = static_cast<float>(
      std::count_if(targets.begin(), targets.end(), [](std::int32_t t) { return t >= 0; }));
  executor_->write(index, train().at("valid_tokens"), &valid);
}

float ModelRunner::step(float lr, float bias1, float bias2) {
  const int index = job_.index("train");
  const float hyper[3] = {lr, bias1, bias2};
  if (const ValueId id = train().find("hyper"); id != kNoValue) executor_->write(index, id, hyper);
  executor_->run(index);
  float loss = 0;
  executor_->read(index, train().at("loss"), &loss);
  return loss;
}

float ModelRunner::grad_norm() const {
  float norm = 0;
  executor_->read(job_.index("train"), train().at("grad_norm"), &norm);
  return norm;
}

bool ModelRunner::stopped() const {
  std::int32_t stop = 0;
  executor_->read(job_.index("train"), train().at("stop"), &stop);
  return stop != 0;
}

std::vector<float> ModelRunner::gradient(const std::string& name) const {
  const ValueId gradient = parameter(name).gradient;
  std::vector<float> values(static_cast<std::size_t>(train().value(gradient).bytes() / 4));
  executor_->read(job_.index("train"), gradient, values.data());
  return values;
}

std::vector<std::vector<std::byte>> ModelRunner::state() const {
  std::vector<std::vector<std::byte>> state;
  for (ValueId id = 0; id < static_cast<ValueId>(train().values.size()); ++id) {
    const Value& v = train().value(id);
    if (v.is_view() || v.lifetime != Lifetime::persistent) continue;
    executor_->read(job_.index("train"), id, state.emplace_back(static_cast<std::size_t>(v.bytes())).data());
  }
  return state;
}

ModelConfig tiny_config(bool tied) {
  return {.flavor = "tiny",
          .dim = 48,
          .n_layers = 3,
          .n_heads = 6,
          .n_kv_heads = 2,
          .head_dim = 8,
          .ffn_dim = 80,
          .vocab_size = 101,
          .tie_embeddings = tied};
}

std::vector<std::int32_t> random_tokens(std::int64_t count, std::int64_t vocab, std::uint32_t seed) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::uint32_t state = seed * 2654435761u + 12345u;
  for (std::int32_t& t : tokens) {
    state = state * 1664525u + 1013904223u;
    t = static_cast<std::int32_t>((state >> 8) % static_cast<std::uint32_t>(vocab));
  }
  return tokens;
}

}  // namespace titan::test
