#include "parallelism/compile.h"

#include <algorithm>
#include <optional>

#include "engine/model/setup.h"
#include "engine/optim/optimizer.h"
#include "engine/optim/parameter_norms.h"
#include "engine/passes/offload_activations.h"
#include "engine/passes/offload_state.h"
#include "engine/passes/quantize.h"
#include "engine/passes/recompute.h"
#include "engine/passes/stage_state.h"
#include "engine/program/verify.h"
#include "engine/recipe/recipe.h"
#include "kernels/base/error.h"
#include "kernels/cost/machine.h"
#include "parallelism/passes/shard_parameters.h"

namespace titan {
namespace {

/// Every micro-batch has its own commands: more would be a step of hours and gigabytes of commands.
constexpr std::int64_t kMostMicroBatches = 65'536;

/// Debug builds and tests check every program after every pass.
Program checked(Program program) {
#ifndef NDEBUG
  verify(program);
#endif
  return program;
}

DType compute_dtype(const Recipe& recipe) {
  return recipe.training.mixed_precision_param == "float32" ? DType::f32 : DType::bf16;
}

bool reshards(const Recipe& recipe) { return recipe.parallelism.fsdp_reshard_after_forward == "always"; }

std::optional<Float8Recipe> float8_recipe(const Recipe& recipe) {
  if (!recipe.model.uses_float8()) return std::nullopt;
  const auto& keys = recipe.quantize.linear.float8;
  return Float8Recipe{.scaling = parse_float8_scaling(keys.recipe_name.value_or("tensorwise")),
                      .filters = keys.filter_fqns,
                      .weights_per_use = reshards(recipe)};
}

Program quantize(Program program, const Recipe& recipe) {
  const std::optional<Float8Recipe> float8 = float8_recipe(recipe);
  if (!float8) return program;
  const std::vector<Float8Linear> linears = plan_float8(program, *float8);
  return checked(quantize(std::move(program), linears, *float8));
}

/// Without other ranks to share with, "default" keeps weights for the step: there is nothing to gather twice.
ShardOptions shard_options(const Recipe& recipe) {
  return {.residency = reshards(recipe) ? Residency::per_use : Residency::per_step,
          .no_decay = recipe.optimizer.no_decay,
          .weights_apart = recipe.training.enable_cpu_offload};
}

Program shard(Program program, const ShardOptions& options) {
  const std::vector<BucketPlan> plan = plan_buckets(program);
  return checked(shard_parameters(std::move(program), plan, options));
}

Program place_state(Program program, const Recipe& recipe) {
  return recipe.training.enable_cpu_offload ? checked(offload_state(std::move(program))) : program;
}

OptimizerSettings optimizer_settings(const Recipe& recipe) {
  return {
      .beta1 = static_cast<float>(recipe.optimizer.beta1),
      .beta2 = static_cast<float>(recipe.optimizer.beta2),
      .epsilon = static_cast<float>(recipe.optimizer.eps),
      .weight_decay = static_cast<float>(recipe.optimizer.name == "Adam" ? 0 : recipe.optimizer.weight_decay),
      .max_norm = static_cast<float>(recipe.training.max_norm)};
}

/// "train", and where the recipe asks for it the same step with norms, which the log steps run instead.
std::vector<Program> compile_train(const Recipe& recipe, const ModelConfig& config, const StepShape& shape,
                                   const Mesh& mesh, const Machine& machine) {
  const Recipe::ActivationCheckpoint& ac = recipe.activation_checkpoint;
  Program p = checked(build_train_program(config, shape, mesh));
  p = quantize(std::move(p), recipe);
  p = checked(
      recompute(std::move(p), recompute_policy(ac.mode, ac.selective_ac_option, ac.memory_budget), machine));
  if (const Recipe::ActivationOffload& offload = recipe.activation_offload; offload.enable)
    p = checked(offload_activations(
        std::move(p), {.layers = offload.num_layers.value_or(-1), .min_bytes = offload.min_bytes}));
  p = shard(std::move(p), shard_options(recipe));
  std::vector<Program> programs;
  programs.push_back(std::move(p));
  if (recipe.metrics.log_parameter_norms) {
    Program& with_norms = programs.emplace_back(programs.front());
    with_norms.name = "train_with_norms";
    append_parameter_norms(with_norms);
  }
  for (Program& program : programs) {
    append_optimizer(program, optimizer_settings(recipe));
    program = place_state(checked(std::move(program)), recipe);
  }
  return programs;
}

StepShape validation_shape(const Recipe& recipe) {
  return {.sequences = recipe.validation.local_batch_size,
          .seq_len = recipe.validation.seq_len,
          .compute = compute_dtype(recipe),
          .loss_chunk = recipe.training.loss_chunk};
}

/// "initialize" and "refresh" in front of the programs that share their values.
Job complete(std::vector<Program> programs, const ModelConfig& config) {
  std::vector<const Program*> all;
  for (const Program& p : programs) all.push_back(&p);
  Job job;
  job.programs.push_back(checked(build_initialize_program(programs.front(), config)));
  job.programs.push_back(checked(build_refresh_program(all, config)));
  std::move(programs.begin(), programs.end(), std::back_inserter(job.programs));
  place(job);
  return job;
}

}  // namespace

StepShape training_shape(const Recipe& recipe, const Mesh& mesh) {
  const Recipe::Training& t = recipe.training;
  const std::int64_t ranks = mesh.size(Axis::dp);
  const std::int64_t per_pass = t.local_batch_size * ranks;
  const std::int64_t global = t.global_batch_size < 0 ? per_pass : t.global_batch_size;
  if (global % per_pass != 0)
    throw UserError(
        fmt::format("training.global_batch_size {} is not a multiple of local_batch_size {} x {} "
                    "data-parallel ranks = {}; "
                    "use {} or {}",
                    global, t.local_batch_size, ranks, per_pass,
                    std::max(per_pass, global / per_pass * per_pass), (global / per_pass + 1) * per_pass));
  if (global / per_pass > kMostMicroBatches)
    throw UserError(fmt::format(
        "training.global_batch_size {} is {} micro-batches of {} sequences, at most {} are possible; raise "
        "training.local_batch_size",
        global, global / per_pass, per_pass, kMostMicroBatches));
  return {.sequences = t.local_batch_size,
          .seq_len = t.seq_len,
          .micro_batches = static_cast<int>(global / per_pass),
          .compute = compute_dtype(recipe),
          .loss_chunk = t.loss_chunk};
}

std::vector<Float8Linear> float8_linears(const Recipe& recipe, const Mesh& mesh) {
  const std::optional<Float8Recipe> float8 = float8_recipe(recipe);
  if (!float8) return {};
  return plan_float8(build_train_program(model_config(recipe), training_shape(recipe, mesh), mesh), *float8);
}

Job compile(const Recipe& recipe, const Mesh& mesh, const Machine& machine) {
  const ModelConfig config = model_config(recipe);
  StepShape train = training_shape(recipe, mesh), evaluate = validation_shape(recipe);
  train.positions = evaluate.positions =
      std::max(train.seq_len, recipe.validation.enable ? evaluate.seq_len : 0);
  check_pass(config, train.sequences, train.seq_len);
  if (recipe.validation.enable) check_pass(config, evaluate.sequences, evaluate.seq_len);
  std::vector<Program> programs = compile_train(recipe, config, train, mesh, machine);
  if (recipe.checkpoint.saves_in_background())
    for (std::size_t i = 0, count = programs.size(); i < count; ++i)
      programs.push_back(checked(stage_state(programs[i])));
  if (recipe.validation.enable)
    programs.push_back(
        place_state(shard(quantize(checked(build_evaluate_program(config, evaluate, mesh)), recipe),
                          shard_options(recipe)),
                    recipe));
  return complete(std::move(programs), config);
}

Job compile_evaluation(const ModelConfig& config, const StepShape& shape, const Mesh& mesh) {
  check_pass(config, shape.sequences, shape.seq_len);
  std::vector<Program> programs;
  programs.push_back(
      shard(checked(build_evaluate_program(config, shape, mesh)), {.residency = Residency::persistent}));
  return complete(std::move(programs), config);
}

Job compile_generation(const ModelConfig& config, std::int64_t capacity, DType compute) {
  check_pass(config, 1, capacity);
  std::vector<Program> programs;
  for (const auto& [name, rows] :
       {std::pair{"prefill", kPrefillRows}, std::pair{"decode", std::int64_t{1}}}) {
    Program p = checked(
        build_generate_program(name, config, {.rows = rows, .capacity = capacity, .compute = compute}));
    programs.push_back(shard(std::move(p), {.residency = Residency::persistent}));
  }
  return complete(std::move(programs), config);
}

}  // namespace titan
