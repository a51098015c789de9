// A compiled model on the CPU backend, for tests: give it weights and tokens, read losses and gradients.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/executor/executor.h"
#include "engine/model/llama.h"
#include "engine/passes/offload_activations.h"
#include "engine/passes/quantize.h"
#include "engine/passes/recompute.h"
#include "engine/program/job.h"
#include "parallelism/passes/shard_parameters.h"

namespace titan::test {

struct RunnerOptions {
  std::optional<Float8Recipe> float8 = std::nullopt;
  RecomputePolicy recompute = {};
  Residency residency = Residency::per_step;
  bool optimizer = true;  ///< without it gradients stay readable
  bool parameter_norms = false;
  std::vector<std::string> no_decay = {};
  std::optional<ActivationOffload> offload_activations = {};
  bool offload_state = false;
  bool two_slots = false;   ///< two micro-batches: both forwards, then both backwards
  bool host_thread = true;  ///< what runs on the host has a thread of its own
  float max_norm = 1;
  int threads = 2;
  std::function<std::unique_ptr<Backend>()> backend = {};  ///< instead of the CPU's
};

class ModelRunner {
 public:
  ModelRunner(const ModelConfig& config, const StepShape& shape, const RunnerOptions& options);
  ~ModelRunner();

  void initialize(std::int64_t seed);
  void set_weight(const std::string& name, std::span<const float> values);
  std::vector<float> weight(const std::string& name) const;

  /// [micro-batch][row]; positions are 0 … seq_len−1 in each sequence, one document.
  void set_batch(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets);
  /// Runs the training program; returns the loss.
  float step(float lr = 0, float bias1 = 1, float bias2 = 1);
  float grad_norm() const;
  bool stopped() const;
  std::vector<float> gradient(const std::string& name) const;  ///< only without optimizer
  /// Every byte that lasts from step to step: weights, moments, the stop flag.
  std::vector<std::vector<std::byte>> state() const;

  const Job& job() const { return job_; }
  Executor& executor() { return *executor_; }

 private:
  const Program& train() const { return job_.program("train"); }
  const Parameter& parameter(const std::string& name) const;

  StepShape shape_;
  Job job_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executor> executor_;
};

/// debugmodel-like: small, with grouped queries.
ModelConfig tiny_config(bool tied = false);

/// Pseudo-random tokens below `vocab`, and targets with some −100.
std::vector<std::int32_t> random_tokens(std::int64_t count, std::int64_t vocab, std::uint32_t seed);

}  // namespace titan::test
