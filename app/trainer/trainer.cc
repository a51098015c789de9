#include "app/trainer/trainer.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <optional>
#include <utility>

#include "app/trainer/checkpointer.h"
#include "app/trainer/plan.h"
#include "app/trainer/run_data.h"
#include "app/trainer/run_lock.h"
#include "app/trainer/session.h"
#include "app/trainer/signals.h"
#include "engine/data/batch_loader.h"
#include "engine/data/validation_set.h"
#include "engine/metrics/flops.h"
#include "engine/metrics/log.h"
#include "engine/metrics/loss_spikes.h"
#include "engine/metrics/memory.h"
#include "engine/metrics/metrics_logger.h"
#include "engine/metrics/step_metrics.h"
#include "engine/metrics/throughput.h"
#include "engine/optim/schedule.h"
#include "engine/profile/profile.h"
#include "engine/profile/trace.h"
#include "engine/recipe/recipe.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/cost/machine.h"
#include "parallelism/compile.h"

namespace titan {
namespace {

constexpr double kStallSeconds = 0.5;  ///< waiting longer than this for a batch is worth a line
constexpr double kExpectedLossSlack = 1.0;

Schedule make_schedule(const Recipe& recipe) {
  const Recipe::LrScheduler& s = recipe.lr_scheduler;
  Schedule schedule({.training_steps = recipe.training.steps,
                     .total_steps = s.total_steps,
                     .warmup_steps = s.warmup_steps,
                     .decay_ratio = s.decay_ratio,
                     .decay_type = parse_decay(s.decay_type).value(),
                     .min_lr_factor = s.min_lr_factor});
  for (const std::string& warning : schedule.warnings()) spdlog::warn("{}", warning);
  return schedule;
}

/// The four input arrays of one micro-batch.
void write_batch(Executor& executor, int program, const Program& p, const MicroBatch& batch, int instance) {
  executor.write(program, p.at("tokens"), batch.tokens.data(), instance);
  executor.write(program, p.at("targets"), batch.labels.data(), instance);
  executor.write(program, p.at("positions"), batch.positions.data(), instance);
  executor.write(program, p.at("doc_start"), batch.doc_start.data(), instance);
}

float read_scalar(const Executor& executor, int program, ValueId value) {
  float x = 0;
  executor.read(program, value, &x);
  return x;
}

class Trainer {
 public:
  Trainer(const Recipe& recipe, const TrainOptions& options)
      : recipe_(recipe),
        options_(options),
        config_(model_config(recipe)),
        schedule_(make_schedule(recipe)),
        tokenizer_(recipe_tokenizer(recipe)),
        spikes_(recipe.metrics.loss_spike_deviations) {
    check_vocabulary(*tokenizer_, config_);
    spdlog::info("Starting job: {}", recipe.job.description);
    for (const std::string& note : notes(recipe)) spdlog::info("{}", note);
    for (const std::string& warning : warnings(recipe)) spdlog::warn("{}", warning);
    spdlog::info("Building {}", describe(config_));
    data_ = open_run_data(recipe, *tokenizer_);
    machine_ = std::make_unique<Machine>(machine_of(device_request(recipe)));
    spdlog::info("Device: {}", machine_->kind == DeviceKind::cuda
                                   ? fmt::format("{}, {}", machine_->name, machine_->isa)
                                   : fmt::format("CPU, {}, {} threads", machine_->isa, machine_->threads));
    shape_ = training_shape(recipe, mesh_);
    global_batch_ = shape_.sequences * shape_.micro_batches * mesh_.size(Axis::dp);
    for (const std::string& line : float8_lines(recipe)) spdlog::info("{}", line);
  }

  Exit dry_run() {
    const Job job = compile(recipe_, mesh_, *machine_);
    check_memory(job, device_request(recipe_));
    Checkpointer(recipe_).report(job, std::cout);
    std::cout << plan_report(recipe_, config_, job, *machine_)
              << "dry run: all checks passed, nothing was run\n";
    return Exit::ok;
  }

  Exit run() {
    prepare();
    note_stop_signals();
    while (state_.step < recipe_.training.steps) {
      step();
      const bool last = state_.step == recipe_.training.steps;
      if (validation_due(last)) validate();
      if (!last && stop_signal() != nullptr) return stop();
      checkpointer_->after_step(session_->job(), session_->executor(), state_, last, false);
      if (!last && stop_signal() != nullptr) return stop();  // it came during the save
    }
    spdlog::info("Training completed");
    return Exit::ok;
  }

 private:
  Exit stop() {
    spdlog::warn("{} received: stopping after step {}", stop_signal(), state_.step);
    checkpointer_->after_step(session_->job(), session_->executor(), state_, false, true);
    return Exit::stopped_by_signal;
  }

  void prepare() {
    if (recipe_.job.save_config_file) save_config(*recipe_.job.save_config_file);
    checkpointer_ = std::make_unique<Checkpointer>(recipe_, options_.disk_hook);
    session_ = std::make_unique<Session>(compile(recipe_, mesh_, *machine_), device_request(recipe_));
    report_memory();
    load_or_initialize();
    loader_ = std::make_unique<BatchLoader>(
        data_.training,
        BatchLoaderOptions{.global_batch = global_batch_,
                           .shape = {.micro_batches = shape_.micro_batches, .rows = shape_.sequences},
                           .seed = seed()},
        state_.samples_consumed);
    if (!data_.validation.empty())
      validation_ = std::make_unique<ValidationSet>(data_.validation, 0, 1,
                                                    BatchShape{.rows = recipe_.validation.local_batch_size},
                                                    recipe_.validation.steps);
    MetricsOptions options{.dump_folder = recipe_.job.dump_folder,
                           .color = use_color(STDERR_FILENO, recipe_.metrics.disable_color_printing),
                           .jsonl = recipe_.metrics.save_jsonl,
                           .tensorboard = recipe_.metrics.enable_tensorboard,
                           .save_tb_folder = recipe_.metrics.save_tb_folder,
                           .resumed_step = state_.step};
    metrics_ = std::make_unique<MetricsLogger>(options);
    if (!metrics_->tensorboard_folder().empty())
      spdlog::info("TensorBoard files in {}", metrics_->tensorboard_folder().string());
    spdlog::info(
        "Trainer is initialized with local batch size {}, global batch size {}, gradient accumulation steps "
        "{}, sequence length {}, "
        "total steps {} (warmup {})",
        shape_.sequences, global_batch_, shape_.micro_batches, shape_.seq_len, recipe_.training.steps,
        schedule_.warmup_steps());
    if (state_.step < recipe_.training.steps)
      spdlog::info("Training starts at step {}", state_.step + 1);
    else
      spdlog::warn("Nothing to do: the run has made {} steps, and training.steps is {}; raise it to train on",
                   state_.step, recipe_.training.steps);
    meter_.take();
  }

  void report_memory() const {
    const SpaceReport& host_report = session_->job().placement.space(Space::host);
    const std::int64_t arena = session_->executor().arena_bytes(Space::device),
                       host = session_->executor().arena_bytes(Space::host),
                       staging = host_report.persistent_by_role[static_cast<std::size_t>(Role::staging)];
    const auto gib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
    spdlog::info("Memory: one arena of {} B ({:.2f} GiB){}", arena, gib(arena),
                 host == 0 ? ""
                           : fmt::format(", and {} B ({:.2f} GiB) {}", host, gib(host),
                                         host > staging ? "of host memory, to a CPU the same memory"
                                                        : "where saves are staged"));
    if (const std::optional<std::int64_t> beside = session_->beside_arena_bytes())
      spdlog::info(
          "Memory beside the arena: {:.2f} GiB of the driver, libraries and other processes; more "
          "comes with the first steps",
          gib(*beside));
  }

  void save_config(const std::string& name) const {
    const std::filesystem::path path = std::filesystem::path(recipe_.job.dump_folder) / name;
    std::error_code ignored;
    std::filesystem::create_directories(path.parent_path(), ignored);
    std::ofstream file(path);
    file << to_toml(recipe_);
    if (!file.flush()) throw UserError(fmt::format("cannot write {} (job.save_config_file)", path.string()));
  }

  void load_or_initialize() {
    if (std::optional<RunStart> start =
            checkpointer_->restore(session_->job(), session_->executor(), recipe_, data_.identity)) {
      state_ = std::move(start->state);
      schedule_step_ = start->schedule_step;
      optimizer_step_ = start->optimizer_step;
    } else {
      session_->initialize(seed());
      checkpointer_->load_initial_weights(session_->job(), session_->executor(), recipe_, seed());
    }
    state_.global_batch_size = global_batch_;
    state_.layout = mesh_.to_string();
    state_.recipe = to_toml(recipe_);
    state_.model_config = to_json(config_);
    state_.data = data_.identity;
    clipped_steps_logged_ = state_.clipped_steps;
    session_->refresh();
  }

  std::uint64_t seed() const { return static_cast<std::uint64_t>(recipe_.debug.seed.value_or(0)); }

  bool log_due(std::int64_t step) const {
    return step == 1 || step % recipe_.metrics.log_freq == 0 || step == recipe_.training.steps;
  }

  void step() {
    Executor& executor = session_->executor();
    const bool staging = checkpointer_->stages_next_step();
    const bool with_norms = recipe_.metrics.log_parameter_norms && log_due(state_.step + 1);
    const int program = session_->job().index(
        fmt::format("train{}{}", with_norms ? "_with_norms" : "", staging ? "_staging" : ""));
    const Program& p = session_->job().programs[static_cast<std::size_t>(program)];
    const Batch batch = loader_->next();
    if (batch.wait_seconds > kStallSeconds && state_.step > 0)
      spdlog::warn("data stall: step {} waited {:.1f} s for its batch", state_.step + 1, batch.wait_seconds);
    report_epoch(batch);
    for (std::size_t m = 0; m < batch.micro_batches.size(); ++m)
      write_batch(executor, program, p, batch.micro_batches[m], static_cast<int>(m));
    StepScalars scalars = step_scalars(schedule_, recipe_.optimizer.lr, recipe_.optimizer.beta1,
                                       recipe_.optimizer.beta2, state_.step - optimizer_step_);
    scalars.lr =
        static_cast<float>(recipe_.optimizer.lr * schedule_.multiplier(state_.step - schedule_step_));
    const float hyper[3] = {scalars.lr, scalars.bias_correction1, scalars.bias_correction2};
    executor.write(program, p.at("hyper"), hyper);
    const auto valid = static_cast<float>(std::max<std::int64_t>(1, batch.valid_tokens));
    executor.write(program, p.at("valid_tokens"), &valid);

    const bool traced = trace_due();
    executor.run(program, traced || staging ? &node_times_ : nullptr);
    if (staging) checkpointer_->save_staged(session_->job(), executor, held_by(p, node_times_, Phase::stage));
    if (traced) write_step_trace(p);

    const float loss = read_scalar(executor, program, p.at("loss")),
                norm = read_scalar(executor, program, p.at("grad_norm"));
    check_finite(loss, norm);
    ++state_.step;
    state_.samples_consumed = loader_->samples_consumed();
    state_.tokens_seen += shape_.tokens() * shape_.micro_batches;
    if (clips(norm)) ++state_.clipped_steps;
    meter_.add_step(shape_.tokens() * shape_.micro_batches, batch.wait_seconds);
    report_spike(loss, norm, batch);
    if (state_.step == 1) report_first_loss(loss);
    if (!log_due(state_.step)) return;
    StepMetrics m{.step = state_.step, .loss = loss, .grad_norm = norm, .lr = scalars.lr};
    if (with_norms) m.norms = read_norms(program, p);
    log(std::move(m));
  }

  /// As ClipScale decides it.
  bool clips(float norm) const { return norm + 1e-6f > static_cast<float>(recipe_.training.max_norm); }

  std::vector<ParameterNorms> read_norms(int program, const Program& p) const {
    std::vector<float> gradients(p.parameters.size()), weights(p.parameters.size());
    session_->executor().read(program, p.at("gradient_square_sums"), gradients.data());
    session_->executor().read(program, p.at("weight_square_sums"), weights.data());
    std::vector<ParameterNorms> norms;
    for (std::size_t i = 0; i < p.parameters.size(); ++i)
      norms.push_back({p.parameters[i].name, std::sqrt(double{gradients[i]}), std::sqrt(double{weights[i]})});
    return norms;
  }

  void report_spike(float loss, float norm, const Batch& batch) {
    const std::optional<LossSpikes::Spike> spike = spikes_.add(loss);
    if (!spike) return;
    spdlog::warn(
        "loss spike: step {} has loss {:.4f}, recent steps {:.4f} (limit {:.4f}); gradient norm "
        "{:.4f}; samples {} to {}{}",
        state_.step, loss, spike->level, spike->limit, norm, batch.first_sample,
        batch.first_sample + global_batch_ - 1,
        spike->untold > 0 ? fmt::format("; {} more since the last such line", spike->untold) : "");
  }

  /// The last `profiler_active` of every `profile_freq` steps.
  bool trace_due() const {
    const Recipe::Profiling& p = recipe_.profiling;
    return p.enable_profiling && state_.step % p.profile_freq >= p.profile_freq - p.profiler_active;
  }

  void write_step_trace(const Program& program) const {
    const std::filesystem::path path = std::filesystem::path(recipe_.job.dump_folder) /
                                       recipe_.profiling.save_traces_folder /
                                       fmt::format("iteration_{}", state_.step + 1) / "rank0_trace.json";
    write_trace(path, program, node_times_,
                {.title = fmt::format("titan, step {}", state_.step + 1),
                 .persistent_bytes = session_->job().placement.space(Space::device).persistent_bytes});
    spdlog::info("Trace of step {} in {}; where its time went:\n{}", state_.step + 1, path.string(),
                 share_table(share_by_op(program, node_times_, *machine_), duration_of(node_times_)));
  }

  /// The program has left weights and moments as they were (its stop flag); nothing of this step is kept or
  /// saved. What it has staged is the state before it, which is saved as if it had been before this step.
  void check_finite(float loss, float norm) const {
    if (std::isfinite(loss) && std::isfinite(norm)) return;
    throw UserError(
        fmt::format("step {}: loss {} and gradient norm {} are not both finite; the update was not made and "
                    "nothing of this step was saved. "
                    "Lower optimizer.lr or resume from an earlier checkpoint (checkpoint.load_step)",
                    state_.step + 1, loss, norm));
  }

  void report_epoch(const Batch& batch) {
    if (batch.epoch > epoch_ && epoch_ >= 0)
      spdlog::warn("The training data is being read again: epoch {}", batch.epoch + 1);
    epoch_ = batch.epoch;
  }

  /// Fresh weights predict nothing: ln(V), plus what the spread of the head's logits costs.
  void report_first_loss(float loss) const {
    const double expected = std::log(static_cast<double>(config_.vocab_size)) + 0.5;
    if (!checkpointer_->fresh()) return;
    spdlog::info("First loss {:.4f}; fresh weights give about ln(vocabulary) + 0.5 = {:.4f}", loss, expected);
    if (std::abs(loss - expected) > kExpectedLossSlack)
      spdlog::warn("The first loss is far from what fresh weights give");
  }

  void log(StepMetrics m) {
    const ThroughputMeter::Window window = meter_.take();
    const TransformerSize size{.parameters = parameter_count(config_),
                               .embedding_parameters = embedding_parameter_count(config_),
                               .layers = config_.n_layers,
                               .heads = config_.n_heads,
                               .head_dim = config_.head_dim};
    const double flops = flops_per_token(size, shape_.seq_len);
    m.tokens_seen = state_.tokens_seen;
    m.clipped_steps = state_.clipped_steps - std::exchange(clipped_steps_logged_, state_.clipped_steps);
    m.clipped_steps_total = state_.clipped_steps;
    m.memory_bytes = session_->memory_bytes();
    if (machine_->memory_bytes > 0)
      m.memory_percent =
          100.0 * static_cast<double>(m.memory_bytes) / static_cast<double>(machine_->memory_bytes);
    if (const std::optional<std::int64_t> beside = session_->beside_arena_bytes())
      m.beside_arena_gib = static_cast<double>(*beside) / (1 << 30);
    m.tps = window.tps;
    m.tflops = tflops(flops, window.tps);
    m.mfu = mfu(flops, window.tps, peak_flops(machine_->name));
    m.end_to_end_seconds = window.end_to_end_seconds;
    m.data_loading_seconds = window.data_loading_seconds;
    metrics_->log(m);
  }

  bool validation_due(bool last) const {
    return validation_ != nullptr && (last || state_.step == 1 || state_.step % recipe_.validation.freq == 0);
  }

  void validate() {
    Executor& executor = session_->executor();
    const double start = steady_seconds();
    const int program = session_->job().index("evaluate");
    const Program& p = session_->job().programs[static_cast<std::size_t>(program)];
    double loss = 0;
    std::int64_t tokens = 0;
    for (std::int64_t s = 0; s < validation_->steps(); ++s) {
      if (stop_signal() != nullptr) {
        spdlog::warn("{} received: the validation of step {} was broken off", stop_signal(), state_.step);
        return;
      }
      const Batch batch = validation_->batch(s);
      write_batch(executor, program, p, batch.micro_batches.front(), 0);
      const float one = 1;  // the program divides by this: sums stay sums until all batches are in
      executor.write(program, p.at("valid_tokens"), &one);
      executor.run(program);
      loss += read_scalar(executor, program, p.at("loss"));
      tokens += batch.valid_tokens;
    }
    const double seconds = steady_seconds() - start;
    ValidationMetrics m;
    m.step = state_.step;
    m.loss = loss / static_cast<double>(std::max<std::int64_t>(1, tokens));
    m.memory_bytes = session_->memory_bytes();
    if (machine_->memory_bytes > 0)
      m.memory_percent =
          100.0 * static_cast<double>(m.memory_bytes) / static_cast<double>(machine_->memory_bytes);
    m.tps = static_cast<double>(tokens) / seconds;
    metrics_->log(m);
    meter_.exclude(seconds);
  }

  const Recipe& recipe_;
  const TrainOptions& options_;
  ModelConfig config_;
  Schedule schedule_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Mesh mesh_;
  RunData data_;
  std::unique_ptr<Machine> machine_;
  StepShape shape_;
  std::int64_t global_batch_ = 0;
  RunState state_;
  std::int64_t schedule_step_ = 0, optimizer_step_ = 0;  ///< where schedule and bias corrections began
  std::int64_t epoch_ = -1;
  std::int64_t clipped_steps_logged_ = 0;  ///< state_.clipped_steps at the last log
  LossSpikes spikes_;
  ThroughputMeter meter_;
  std::vector<CommandTime> node_times_;  ///< of a step that is traced or staged
  std::unique_ptr<Session> session_;
  std::unique_ptr<Checkpointer> checkpointer_;  ///< its saves in the background read the session's memory
  std::unique_ptr<BatchLoader> loader_;
  std::unique_ptr<ValidationSet> validation_;
  std::unique_ptr<MetricsLogger> metrics_;
};

}  // namespace

Exit train(const Recipe& recipe, const TrainOptions& options) {
  check_supported(recipe);
  ignore_write_signals();
  std::optional<RunLock> lock;
  if (!options.dry_run) lock.emplace(recipe.job.dump_folder);
  Trainer trainer(recipe, options);
  return options.dry_run ? trainer.dry_run() : trainer.run();
}

}  // namespace titan
