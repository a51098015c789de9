#include "engine/recipe/keys.h"

#include <algorithm>
#include <utility>

namespace titan {
namespace {

template <class T>
void assign(T& member, Value value) {
  member = std::get<T>(std::move(value));
}

// The path of a key and how to read and write its member: the two cannot drift apart.
// clang-format off
#define KEY(member)                                                   \
  #member, [](const Recipe& recipe) -> Value { return recipe.member; }, \
      [](Recipe& recipe, Value value) { assign(recipe.member, std::move(value)); }
// clang-format on

constexpr Support no_effect(std::string_view reason) { return {Support::no_effect, reason}; }
constexpr Support default_only(std::string_view instead, std::string_view also = "") {
  return {Support::default_only, instead, also};
}

constexpr Support kNoPython = no_effect("titan is no Python program");
constexpr Support kNoGarbage = no_effect("titan has no garbage collector");
constexpr Support kNoCompiler = no_effect("titan always compiles the whole step itself");
constexpr Support kNoModule = default_only("titan loads no Python modules");
constexpr Support kNoDownload = no_effect("titan downloads no data; dataset_path names the text");
constexpr Support kPure = no_effect("recomputation in titan is always exact");
constexpr Support kOneRank = no_effect("the run has one rank");
constexpr Support kOneRankOnly = default_only("the run has one rank: leave the degree at its default", "1");
constexpr Support kNoPipeline = no_effect("the run has one pipeline stage");
constexpr Support kNoPipelineYet = default_only("the run has one pipeline stage");
constexpr Support kNoExperts = default_only("Llama 3 has no experts", "1");
constexpr Support kNoExpertsHere = no_effect("Llama 3 has no experts");
constexpr Support kNoWarmUp = no_effect("titan's profiler only reads the clock and needs no warming up");
constexpr Support kOnlyMx = no_effect("MX formats are not implemented");
constexpr Support kNoTorchFt =
    default_only("titan has no torchft; a stopped run resumes from its checkpoint");
constexpr Support kOnlyTorchFt = no_effect("titan has no torchft");
constexpr Support kUsePlan = default_only("use `titan plan`, which prints the exact memory of a run");

constexpr Key kKeys[] = {
    {KEY(job.config_file), "recipe file", anything(),
     default_only("name the recipe as the argument: titan train RECIPE")},
    {KEY(job.dump_folder), "folder of everything the run writes", non_empty()},
    {KEY(job.description), "printed when the run starts"},
    {KEY(job.print_config), "print the recipe, overrides applied, when the run starts"},
    {KEY(job.save_config_file), "write that recipe to this file in the dump folder"},
    {KEY(job.custom_config_module), "Python module with more keys", anything(), kNoModule},

    {KEY(profiling.enable_profiling), "write traces of steps", anything()},
    {KEY(profiling.save_traces_folder), "folder of the traces, in the dump folder", non_empty()},
    {KEY(profiling.profile_freq), "steps from one trace to the next", at_least(1)},
    {KEY(profiling.profiler_active), "steps traced each time, a file each", at_least(1)},
    {KEY(profiling.profiler_warmup), "steps before a trace that warm the profiler up", at_least(0),
     kNoWarmUp},
    {KEY(profiling.enable_memory_snapshot), "write snapshots of the memory", anything(), kUsePlan},
    {KEY(profiling.save_memory_snapshot_folder), "folder of the snapshots", non_empty(),
     no_effect("`titan plan` prints the memory of a run")},

    {KEY(metrics.log_freq), "steps from one log line to the next", at_least(1)},
    {KEY(metrics.enable_tensorboard), "write TensorBoard event files"},
    {KEY(metrics.enable_wandb), "log to Weights & Biases", anything(),
     default_only("use metrics.enable_tensorboard or metrics.save_jsonl")},
    {KEY(metrics.disable_color_printing), "no colours in step lines"},
    {KEY(metrics.save_tb_folder), "folder of the event files, in the dump folder", non_empty()},
    {KEY(metrics.save_for_all_ranks), "every rank writes metrics, not only the one that has the loss",
     anything(), kOneRank},
    {KEY(metrics.save_jsonl), "write metrics.jsonl, one line a logged step"},
    {KEY(metrics.log_parameter_norms),
     "log the norms of every parameter's gradient and weights, to metrics.jsonl and TensorBoard"},
    {KEY(metrics.loss_spike_deviations),
     "warn of a loss this many deviations above the recent median; 0: never", at_least(0)},

    {KEY(model.name), "model family", one_of("llama3")},
    {KEY(model.flavor), "preset of the family, or custom: shapes from the keys below", non_empty()},
    {KEY(model.hf_assets_path), "Hugging Face folder with the tokenizer (and weights)"},
    {KEY(model.tokenizer), "byte, or a tokenizer.json; empty: the one in hf_assets_path"},
    {KEY(model.converters), "float8 (or quantize.linear.float8): multiply linear layers in 8 bits",
     anything(), default_only("Float8 is the one converter", "[\"float8\"]|[\"quantize.linear.float8\"]")},
    {KEY(model.print_after_conversion), "print the model once converted", anything(),
     no_effect("`titan plan --dump` prints the program")},
    {KEY(model.dim), "width of the residual stream", at_least(1)},
    {KEY(model.n_layers), "transformer blocks", at_least(1)},
    {KEY(model.n_heads), "query heads", at_least(1)},
    {KEY(model.n_kv_heads), "key and value heads", at_least(1)},
    {KEY(model.head_dim), "width of a head", at_least(1)},
    {KEY(model.ffn_dim), "hidden width of the feed-forward network", at_least(1)},
    {KEY(model.vocab_size), "rows of the embedding", at_least(1)},
    {KEY(model.rope_theta), "base of the rotary embedding's wavelengths", above(0)},
    {KEY(model.rope_scaling), "stretch of the rotary wavelengths", one_of("llama3|none")},
    {KEY(model.rope_scaling_factor), "stretch of the longest wavelengths", above(0)},
    {KEY(model.rope_low_freq_factor), "wavelengths above rope_original_length / this stretch in full",
     above(0)},
    {KEY(model.rope_high_freq_factor), "wavelengths below rope_original_length / this stay", above(0)},
    {KEY(model.rope_original_length), "sequence length before the stretch", at_least(1)},
    {KEY(model.norm_eps), "epsilon of RMSNorm", above(0)},
    {KEY(model.tie_embeddings), "the output layer shares the embedding's weights"},

    {KEY(optimizer.name), "optimizer", one_of("AdamW|Adam"), default_only("use AdamW")},
    {KEY(optimizer.lr), "learning rate at its peak", at_least(0)},
    {KEY(optimizer.beta1), "decay of the first moment", from_up_to(0, 1)},
    {KEY(optimizer.beta2), "decay of the second moment", from_up_to(0, 1)},
    {KEY(optimizer.eps), "added to the root of the second moment", at_least(0)},
    {KEY(optimizer.weight_decay), "decoupled weight decay", at_least(0)},
    {KEY(optimizer.no_decay), "patterns of parameter names that do not decay"},
    {KEY(optimizer.implementation), "how PyTorch runs the optimizer", one_of("fused|foreach|for-loop"),
     no_effect("titan's optimizer is always fused")},
    {KEY(optimizer.early_step_in_backward), "step each parameter during the backward", anything(),
     default_only("it excludes gradient clipping and accumulation")},

    {KEY(lr_scheduler.warmup_steps), "steps to the peak", at_least(0)},
    {KEY(lr_scheduler.total_steps), "last step of the schedule; none: training.steps", at_least(1)},
    {KEY(lr_scheduler.decay_ratio), "share of the steps that decay; none: all after the warmup",
     between(0, 1)},
    {KEY(lr_scheduler.decay_type), "shape of the decay", one_of("linear|sqrt|cosine")},
    {KEY(lr_scheduler.min_lr_factor), "end of the decay, as a share of the peak", between(0, 1)},

    {KEY(training.dataset), "name of TorchTitan's data set", anything(), kNoDownload},
    {KEY(training.dataset_path), "files, folders or globs of text or token shards"},
    {KEY(training.dataset_mix),
     "PATH=WEIGHT of several data sets that samples are drawn from, instead of dataset_path"},
    {KEY(training.data_cache), "folder of prepared tokens; empty: data in the dump folder"},
    {KEY(training.document_mask), "tokens attend only within their document"},
    {KEY(training.local_batch_size), "sequences a data-parallel rank takes at once", at_least(1)},
    {KEY(training.global_batch_size), "sequences in an optimizer step; -1: one local batch a rank",
     at_least(1).or_also(-1)},
    {KEY(training.seq_len), "tokens in a sequence", at_least(1)},
    {KEY(training.max_norm), "gradients are clipped to this global norm", above(0)},
    {KEY(training.steps), "optimizer steps", at_least(1)},
    {KEY(training.enable_cpu_offload),
     "keep parameters and optimizer state in host memory, updated by the CPU; saves nothing where the device "
     "is a CPU"},
    {KEY(training.dtype), "type of parameters and optimizer state", one_of("float32|bfloat16"),
     default_only("parameters stay float32; mixed_precision_param sets what is computed in")},
    {KEY(training.mixed_precision_param), "type of activations and of weights as used",
     one_of("bfloat16|float32")},
    {KEY(training.mixed_precision_reduce), "type in which gradients are reduced", one_of("float32")},
    {KEY(training.loss_chunk), "tokens of logits in memory at once; 0: automatic", at_least(0)},
    {KEY(training.gc_freq), "steps between garbage collections", at_least(1), kNoGarbage},
    {KEY(training.gc_debug), "trace the garbage collector", anything(), kNoGarbage},
    {KEY(training.dataloader.num_workers), "loader processes", at_least(0), kNoPython},
    {KEY(training.dataloader.persistent_workers), "keep the loader processes", anything(), kNoPython},
    {KEY(training.dataloader.pin_memory), "load into pinned memory", anything(), kNoPython},
    {KEY(training.dataloader.prefetch_factor), "batches loaded ahead by a worker", at_least(1), kNoPython},

    {KEY(parallelism.data_parallel_replicate_degree), "replicas of the sharded model", at_least(1),
     kOneRankOnly},
    {KEY(parallelism.data_parallel_shard_degree),
     "ranks that share one copy of the state; -1: all that are left", at_least(1).or_also(-1), kOneRankOnly},
    {KEY(parallelism.fsdp_reshard_after_forward),
     "always: make weights in the compute dtype for each use; others: once a step",
     one_of("default|always|never")},
    {KEY(parallelism.tensor_parallel_degree), "ranks that split each layer", at_least(1), kOneRankOnly},
    {KEY(parallelism.disable_loss_parallel), "gather the logits before the loss", anything(), kOneRank},
    {KEY(parallelism.enable_async_tensor_parallel), "overlap tensor-parallel communication with GEMMs",
     anything(), default_only("the run has one rank")},
    {KEY(parallelism.enable_compiled_autograd), "PyTorch's compiled autograd", anything(), kNoCompiler},
    {KEY(parallelism.pipeline_parallel_degree), "pipeline stages' ranks", at_least(1), kOneRankOnly},
    {KEY(parallelism.module_fqns_per_model_part), "modules of each stage", anything(), kNoPipelineYet},
    {KEY(parallelism.pipeline_parallel_first_stage_less_layers), "layers the embedding counts for",
     at_least(0), kNoPipeline},
    {KEY(parallelism.pipeline_parallel_last_stage_less_layers), "layers the output counts for", at_least(0),
     kNoPipeline},
    {KEY(parallelism.pipeline_parallel_layers_per_stage), "layers of a stage", at_least(1), kNoPipelineYet},
    {KEY(parallelism.pipeline_parallel_schedule), "pipeline schedule",
     one_of("1F1B|GPipe|Interleaved1F1B|InterleavedZeroBubble|ZBVZeroBubble|DualPipeV|PipelineScheduleSingle|"
            "PipelineScheduleMulti|_PipelineScheduleRuntime"),
     kNoPipeline},
    {KEY(parallelism.pipeline_parallel_schedule_csv), "file of a schedule", anything(), kNoPipelineYet},
    {KEY(parallelism.pipeline_parallel_microbatch_size), "sequences in a micro-batch of the pipeline",
     at_least(1), kNoPipeline},
    {KEY(parallelism.pipeline_parallel_expert_parallel_overlap), "overlap expert communication in DualPipeV",
     anything(), kNoExpertsHere},
    {KEY(parallelism.context_parallel_degree), "ranks that split each sequence", at_least(1), kOneRankOnly},
    {KEY(parallelism.context_parallel_rotate_method), "how keys and values travel",
     one_of("allgather|alltoall"), kOneRank},
    {KEY(parallelism.context_parallel_load_balancer), "how sequences are cut", one_of("headtail|ptrr|none"),
     kOneRank},
    {KEY(parallelism.expert_parallel_degree), "ranks that split the experts", at_least(1), kNoExperts},
    {KEY(parallelism.expert_tensor_parallel_degree), "ranks that split each expert", at_least(1), kNoExperts},
    {KEY(parallelism.expert_parallel_comm_backend), "library of expert communication",
     one_of("standard|deepep"), kNoExpertsHere},

    {KEY(checkpoint.enable), "save checkpoints, and resume from the latest"},
    {KEY(checkpoint.enable_ft_dataloader_checkpoints), "save the loader of each torchft replica", anything(),
     kOnlyTorchFt},
    {KEY(checkpoint.folder), "folder of the checkpoints, in the dump folder", non_empty()},
    {KEY(checkpoint.interval), "steps from one save to the next", at_least(1)},
    {KEY(checkpoint.initial_load_path), "checkpoint to start from while the own folder has none"},
    {KEY(checkpoint.initial_load_model_only), "take only the weights from it"},
    {KEY(checkpoint.initial_load_in_hf),
     "it is a Hugging Face model folder; without initial_load_path: model.hf_assets_path"},
    {KEY(checkpoint.initial_load_in_hf_quantized), "and its weights are quantized", anything(),
     default_only("load unquantized weights")},
    {KEY(checkpoint.last_save_model_only), "the last save holds only the weights"},
    {KEY(checkpoint.last_save_in_hf), "and is exported to a Hugging Face model folder, step-N-hf"},
    {KEY(checkpoint.export_dtype), "type of the weights in a last save without optimizer",
     one_of("float32|bfloat16|float16")},
    {KEY(checkpoint.async_mode),
     "write while training goes on, from a copy of the state in host memory, pinned where there is a GPU",
     one_of("disabled|async|async_with_pinned_mem")},
    {KEY(checkpoint.keep_latest_k), "newest checkpoints to keep, at least 2; 0: all", at_least(2).or_also(0)},
    {KEY(checkpoint.load_step), "step to resume from; -1: the latest", at_least(0).or_also(-1)},
    {KEY(checkpoint.exclude_from_loading), "parts of a checkpoint to leave out",
     one_of("optimizer|lr_scheduler|dataloader|train_state")},
    {KEY(checkpoint.enable_first_step_checkpoint),
     "save after the first step too, to prove that saving works"},
    {KEY(checkpoint.create_seed_checkpoint), "save the initial weights and stop", anything(),
     default_only("the initial weights are the same for every layout and number of ranks")},
    {KEY(checkpoint.load_only), "never save"},

    {KEY(activation_checkpoint.mode), "which activations the backward computes again",
     one_of("selective|full|memory_budget|none")},
    {KEY(activation_checkpoint.selective_ac_option), "op: by operation; N: every Nth block whole"},
    {KEY(activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns), "GEMMs always computed again",
     anything(), kNoExpertsHere},
    {KEY(activation_checkpoint.early_stop), "stop computing again once nothing more is needed", anything(),
     no_effect("titan never recomputes what is not needed")},
    {KEY(activation_checkpoint.memory_budget),
     "share of the activations' memory to use in memory_budget mode", between(0, 1)},
    {KEY(activation_checkpoint.visualize_memory_budget_pareto), "plot memory against time", anything(),
     kUsePlan},
    {KEY(activation_checkpoint.preserve_rng_state), "compute again with the same random numbers", anything(),
     kPure},
    {KEY(activation_checkpoint.determinism_check), "compare recomputed shapes", one_of("default|none"),
     kPure},
    {KEY(activation_checkpoint.debug), "trace recomputation", anything(),
     no_effect("`titan plan --dump` shows what is recomputed")},

    {KEY(activation_offload.enable),
     "keep what the backward reads of the forward in host memory between the two"},
    {KEY(activation_offload.num_layers), "first blocks whose activations go there; none: all but the last",
     at_least(1)},
    {KEY(activation_offload.min_bytes), "smallest activation, in bytes, that is worth a copy", at_least(0)},

    {KEY(cuda.measure_gemms),
     "choose the fastest algorithm of each product in the first step; kept in the dump folder, for the same "
     "bits",
     anything()},

    {KEY(compile.enable), "torch.compile", anything(), kNoCompiler},
    {KEY(compile.components), "what to compile", one_of("model|loss"), kNoCompiler},
    {KEY(compile.backend), "torch.compile's backend", anything(), kNoCompiler},

    {KEY(quantize.linear.float8.enable_fsdp_float8_all_gather), "gather parameters in float8", anything(),
     kOneRank},
    {KEY(quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp), "one reduction for all scales",
     anything(), kOneRank},
    {KEY(quantize.linear.float8.recipe_name), "what shares a scale; none: tensorwise",
     one_of("tensorwise|rowwise|rowwise_with_gw_hp")},
    {KEY(quantize.linear.float8.filter_fqns),
     "layers left as they are, by part of their Hugging Face or TorchTitan name"},
    {KEY(quantize.linear.float8.emulate), "float8 numbers without float8 hardware", anything(),
     no_effect("a CPU always emulates: it rounds to 8 bits and multiplies the same values")},
    {KEY(quantize.linear.mx.mxfp8_dim1_cast_kernel_choice), "cast kernel", one_of("triton|cuda|torch"),
     kOnlyMx},
    {KEY(quantize.linear.mx.recipe_name), "MX recipe", anything(), kOnlyMx},
    {KEY(quantize.linear.mx.filter_fqns), "layers left as they are", anything(), kOnlyMx},
    {KEY(quantize.grouped_mm.float8.fqns), "grouped GEMMs in float8", anything(), kNoExpertsHere},
    {KEY(quantize.grouped_mm.mx.recipe_name), "MX recipe of grouped GEMMs", anything(), kNoExpertsHere},
    {KEY(quantize.grouped_mm.mx.fqns), "grouped GEMMs in MX", anything(), kNoExpertsHere},

    {KEY(comm.init_timeout_seconds), "limit of a collective before the first step is done", at_least(1),
     kOneRank},
    {KEY(comm.train_timeout_seconds), "limit of a collective after it", at_least(1), kOneRank},
    {KEY(comm.trace_buf_size), "collectives the flight recorder remembers", at_least(0), kOneRank},
    {KEY(comm.save_traces_folder), "folder of its dumps, in the dump folder", non_empty(), kOneRank},
    {KEY(comm.save_traces_file_prefix), "start of their names", anything(), kOneRank},
    {KEY(comm.mode), "pretend to have many ranks", one_of("default|fake_backend|local_tensor"),
     default_only("use `titan plan --ranks N`")},

    {KEY(memory_estimation.enable), "estimate memory instead of training", anything(), kUsePlan},
    {KEY(memory_estimation.disable_fake_mode), "estimate with real tensors", anything(), kUsePlan},

    {KEY(fault_tolerance.enable), "train with torchft", anything(), kNoTorchFt},
    {KEY(fault_tolerance.process_group), "its transport", one_of("gloo|nccl"), kOnlyTorchFt},
    {KEY(fault_tolerance.process_group_timeout_ms), "its timeout", at_least(1), kOnlyTorchFt},
    {KEY(fault_tolerance.replica_id), "number of this replica", at_least(0), kOnlyTorchFt},
    {KEY(fault_tolerance.group_size), "replicas", at_least(0), kOnlyTorchFt},
    {KEY(fault_tolerance.min_replica_size), "replicas a step needs", at_least(1), kOnlyTorchFt},
    {KEY(fault_tolerance.semi_sync_method), "infrequent synchronisation", one_of("local_sgd|diloco"),
     kNoTorchFt},

    {KEY(experimental.custom_import), "Python module to import", anything(), kNoModule},
    {KEY(experimental.custom_args_module), "Python module with more keys", anything(), kNoModule},

    {KEY(validation.enable), "measure the validation loss"},
    {KEY(validation.dataset), "name of TorchTitan's validation set", anything(), kNoDownload},
    {KEY(validation.dataset_path), "files, folders or globs, as in training"},
    {KEY(validation.split), "share of the training windows held out when there is no dataset_path",
     from_up_to(0, 1)},
    {KEY(validation.local_batch_size), "sequences a data-parallel rank takes at once", at_least(1)},
    {KEY(validation.seq_len), "tokens in a sequence", at_least(1)},
    {KEY(validation.freq), "training steps from one validation to the next", at_least(1)},
    {KEY(validation.steps), "batches in a validation; -1: the whole set", at_least(1).or_also(-1)},

    {KEY(debug.seed), "seed of the weights and of the order of samples", at_least(0)},
    {KEY(debug.deterministic), "same losses in every run", anything(),
     no_effect("runs are always deterministic")},
    {KEY(debug.deterministic_warn_only), "only warn of what is not", anything(),
     no_effect("runs are always deterministic")},
    {KEY(debug.moe_force_load_balance), "spread tokens evenly over experts", anything(), kNoExpertsHere},
    {KEY(debug.device), "where to compute; auto: a GPU if one can be used", one_of("auto|cpu|cuda")},
    {KEY(debug.threads), "CPU threads; 0: all", at_least(0)},
};
#undef KEY

struct Alias {
  std::string_view old_name;
  std::string_view name;
};

// Names of TorchTitan's other versions that mean what a key of v0.2 means.
constexpr Alias kAliases[] = {
    {"training.seed", "debug.seed"},
    {"training.deterministic", "debug.deterministic"},
    {"training.debug_moe_force_load_balance", "debug.moe_force_load_balance"},
    {"training.batch_size", "training.local_batch_size"},
    {"training.warmup_steps", "lr_scheduler.warmup_steps"},
    {"training.compile", "compile.enable"},
    {"training.fsdp_reshard_after_forward", "parallelism.fsdp_reshard_after_forward"},
    {"training.data_parallel_replicate_degree", "parallelism.data_parallel_replicate_degree"},
    {"training.data_parallel_shard_degree", "parallelism.data_parallel_shard_degree"},
    {"training.tensor_parallel_degree", "parallelism.tensor_parallel_degree"},
    {"experimental.context_parallel_degree", "parallelism.context_parallel_degree"},
    {"experimental.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree"},
    {"experimental.pipeline_parallel_schedule", "parallelism.pipeline_parallel_schedule"},
    {"experimental.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"},
    {"model.tokenizer_path", "model.hf_assets_path"},
    {"lr_scheduler.lr_min", "lr_scheduler.min_lr_factor"},
    {"checkpoint.enable_checkpoint", "checkpoint.enable"},
    {"checkpoint.model_weights_only", "checkpoint.last_save_model_only"},
    {"checkpoint.last_save_model_weights_only", "checkpoint.last_save_model_only"},
    {"profiler", "profiling"},
    {"float8", "quantize.linear.float8"},
    {"mx", "quantize.linear.mx"},
};

}  // namespace

std::span<const Key> keys() { return kKeys; }

const Key* find_key(std::string_view path) {
  const auto* found =
      std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& key) { return key.path == path; });
  return found == std::end(kKeys) ? nullptr : found;
}

bool is_section(std::string_view path) {
  return std::any_of(std::begin(kKeys), std::end(kKeys), [&](const Key& key) {
    return key.path.size() > path.size() && key.path.starts_with(path) && key.path[path.size()] == '.';
  });
}

std::string_view current_name(std::string_view path) {
  const auto* found = std::find_if(std::begin(kAliases), std::end(kAliases),
                                   [&](const Alias& alias) { return alias.old_name == path; });
  return found == std::end(kAliases) ? path : found->name;
}

Value default_value(const Key& key) { return key.get(Recipe()); }

}  // namespace titan
