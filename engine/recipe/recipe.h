// A recipe: everything a run needs to know, as TorchTitan v0.2's TOML schema says it, plus titan's own keys.
// One struct a TOML section, one field a key, names and defaults as in the file: `recipe.training.seq_len` is
// `seq_len` under `[training]`. What each key means, which values it takes and whether it works stands in the
// table of keys.cc; parsing, overrides, help and documentation all read that table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

struct Recipe {
  using Strings = std::vector<std::string>;
  template <class T>
  using Optional = std::optional<T>;  // None in TorchTitan: the key is absent

  struct Job {
    Optional<std::string> config_file;
    std::string dump_folder = "./outputs";
    std::string description = "default job";
    bool print_config = false;
    Optional<std::string> save_config_file;
    std::string custom_config_module;
  } job;

  struct Profiling {
    bool enable_profiling = false;
    std::string save_traces_folder = "profile_traces";
    int64_t profile_freq = 10;
    int64_t profiler_active = 1;
    int64_t profiler_warmup = 3;
    bool enable_memory_snapshot = false;
    std::string save_memory_snapshot_folder = "memory_snapshot";
  } profiling;

  struct Metrics {
    int64_t log_freq = 10;
    bool enable_tensorboard = false;
    bool enable_wandb = false;
    bool disable_color_printing = false;
    std::string save_tb_folder = "tb";
    bool save_for_all_ranks = false;
    bool save_jsonl = true;
    bool log_parameter_norms = false;
    double loss_spike_deviations = 8.0;
  } metrics;

  struct Model {
    std::string name = "llama3";
    std::string flavor = "debugmodel";
    std::string hf_assets_path = "./tests/assets/tokenizer";
    std::string tokenizer;  // "byte", a tokenizer.json, or empty: from hf_assets_path
    Strings converters;
    bool print_after_conversion = false;
    // Each overrides the flavor's preset; flavor "custom" has none and needs dim, n_layers and n_heads.
    Optional<int64_t> dim;
    Optional<int64_t> n_layers;
    Optional<int64_t> n_heads;
    Optional<int64_t> n_kv_heads;
    Optional<int64_t> head_dim;
    Optional<int64_t> ffn_dim;
    Optional<int64_t> vocab_size;
    Optional<double> rope_theta;
    Optional<std::string> rope_scaling;
    Optional<double> rope_scaling_factor;  // these four: of rope_scaling "llama3"
    Optional<double> rope_low_freq_factor;
    Optional<double> rope_high_freq_factor;
    Optional<int64_t> rope_original_length;
    Optional<double> norm_eps;
    Optional<bool> tie_embeddings;

    /// TorchTitan's recipes say "float8", its code "quantize.linear.float8".
    bool uses_float8() const {
      return std::any_of(converters.begin(), converters.end(), [](const std::string& name) {
        return name == "float8" || name == "quantize.linear.float8";
      });
    }
  } model;

  struct Optimizer {
    std::string name = "AdamW";
    double lr = 8e-4;
    double beta1 = 0.9;
    double beta2 = 0.95;
    double eps = 1e-8;
    double weight_decay = 0.1;
    Strings no_decay;
    std::string implementation = "fused";
    bool early_step_in_backward = false;
  } optimizer;

  struct LrScheduler {
    int64_t warmup_steps = 200;
    Optional<int64_t> total_steps;  // absent: training.steps
    Optional<double> decay_ratio;   // absent: decay from the end of the warmup to the last step
    std::string decay_type = "linear";
    double min_lr_factor = 0.0;
  } lr_scheduler;

  struct Training {
    std::string dataset = "c4_test";
    Strings dataset_path;
    Strings dataset_mix;     // PATH=WEIGHT, instead of dataset_path
    std::string data_cache;  // empty: <dump_folder>/data
    bool document_mask = false;
    int64_t local_batch_size = 8;
    int64_t global_batch_size = -1;  // -1: local_batch_size on every data-parallel rank, no accumulation
    int64_t seq_len = 2048;
    double max_norm = 1.0;
    int64_t steps = 10000;
    bool enable_cpu_offload = false;
    std::string dtype = "float32";
    std::string mixed_precision_param = "bfloat16";
    std::string mixed_precision_reduce = "float32";
    int64_t loss_chunk = 0;  // 0: chosen automatically
    int64_t gc_freq = 50;
    bool gc_debug = false;

    struct Dataloader {
      int64_t num_workers = 0;
      bool persistent_workers = false;
      bool pin_memory = false;
      Optional<int64_t> prefetch_factor;
    } dataloader;
  } training;

  struct Parallelism {
    int64_t data_parallel_replicate_degree = 1;
    int64_t data_parallel_shard_degree = -1;  // -1: all ranks that the other degrees leave
    std::string fsdp_reshard_after_forward = "default";
    int64_t tensor_parallel_degree = 1;
    bool disable_loss_parallel = false;
    bool enable_async_tensor_parallel = false;
    bool enable_compiled_autograd = false;
    int64_t pipeline_parallel_degree = 1;
    std::vector<Strings> module_fqns_per_model_part;  // empty: split by layers
    int64_t pipeline_parallel_first_stage_less_layers = 1;
    int64_t pipeline_parallel_last_stage_less_layers = 1;
    Optional<int64_t> pipeline_parallel_layers_per_stage;
    std::string pipeline_parallel_schedule = "1F1B";
    std::string pipeline_parallel_schedule_csv;
    int64_t pipeline_parallel_microbatch_size = 1;
    bool pipeline_parallel_expert_parallel_overlap = true;
    int64_t context_parallel_degree = 1;
    std::string context_parallel_rotate_method = "allgather";
    std::string context_parallel_load_balancer = "headtail";
    int64_t expert_parallel_degree = 1;
    int64_t expert_tensor_parallel_degree = 1;
    std::string expert_parallel_comm_backend = "standard";
  } parallelism;

  struct Checkpoint {
    bool enable = false;
    bool enable_ft_dataloader_checkpoints = true;
    std::string folder = "checkpoint";
    int64_t interval = 500;
    Optional<std::string> initial_load_path;
    bool initial_load_model_only = true;
    bool initial_load_in_hf = false;
    bool initial_load_in_hf_quantized = false;
    bool last_save_model_only = true;
    bool last_save_in_hf = false;
    std::string export_dtype = "float32";
    std::string async_mode = "disabled";
    int64_t keep_latest_k = 10;  // 0: all
    int64_t load_step = -1;      // -1: the latest
    Strings exclude_from_loading;
    bool enable_first_step_checkpoint = false;
    bool create_seed_checkpoint = false;
    bool load_only = false;

    bool saves_in_background() const { return enable && !load_only && async_mode != "disabled"; }
  } checkpoint;

  struct ActivationCheckpoint {
    std::string mode = "selective";
    std::string selective_ac_option = "2";  // "op", or N: every Nth layer
    Strings per_op_sac_force_recompute_mm_shapes_by_fqns = {"moe.router.gate"};
    bool early_stop = false;
    double memory_budget = 0.5;
    bool visualize_memory_budget_pareto = false;
    bool preserve_rng_state = true;
    std::string determinism_check = "default";
    bool debug = false;
  } activation_checkpoint;

  struct ActivationOffload {
    bool enable = false;
    Optional<int64_t> num_layers;  // of the first blocks; absent: all but the last
    int64_t min_bytes = 1 << 20;
  } activation_offload;

  struct Cuda {
    bool measure_gemms = false;
  } cuda;

  struct Compile {
    bool enable = false;
    Strings components = {"model", "loss"};
    std::string backend = "inductor";
  } compile;

  struct Quantize {
    struct Linear {
      struct Float8 {
        bool enable_fsdp_float8_all_gather = false;
        bool precompute_float8_dynamic_scale_for_fsdp = false;
        Optional<std::string> recipe_name;
        Strings filter_fqns;
        bool emulate = false;
      } float8;
      struct Mx {
        std::string mxfp8_dim1_cast_kernel_choice = "triton";
        std::string recipe_name = "mxfp8_cublas";
        Strings filter_fqns = {"output"};
      } mx;
    } linear;
    struct GroupedMm {
      struct Float8 {
        Strings fqns;
      } float8;
      struct Mx {
        std::string recipe_name = "mxfp8";
        Strings fqns;
      } mx;
    } grouped_mm;
  } quantize;

  struct Comm {
    int64_t init_timeout_seconds = 300;
    int64_t train_timeout_seconds = 100;
    int64_t trace_buf_size = 20000;
    std::string save_traces_folder = "comm_traces";
    std::string save_traces_file_prefix = "rank_";
    std::string mode = "default";
  } comm;

  struct MemoryEstimation {
    bool enable = false;
    bool disable_fake_mode = false;
  } memory_estimation;

  struct FaultTolerance {
    bool enable = false;
    std::string process_group = "gloo";
    int64_t process_group_timeout_ms = 10000;
    int64_t replica_id = 0;
    int64_t group_size = 0;
    int64_t min_replica_size = 1;
    Optional<std::string> semi_sync_method;
  } fault_tolerance;

  struct Experimental {
    std::string custom_import;
    std::string custom_args_module;
  } experimental;

  struct Validation {
    bool enable = false;
    std::string dataset = "c4_validation";
    Strings dataset_path;
    double split = 0.0;  // share of the training windows held out when dataset_path is empty
    int64_t local_batch_size = 8;
    int64_t seq_len = 2048;
    int64_t freq = 10;
    int64_t steps = -1;  // -1: the whole set
  } validation;

  struct Debug {
    Optional<int64_t> seed;
    bool deterministic = false;
    bool deterministic_warn_only = false;
    bool moe_force_load_balance = false;
    std::string device = "auto";
    int64_t threads = 0;  // 0: all CPU threads
  } debug;
};

/// Parses `text` and then applies `overrides`, each "--section.key=value": lists as a,b or ["a", "b"],
/// booleans as true, false or the bare flag, `none` for an absent optional. `source_name` stands in messages
/// as the file. Checks every value (`validate`). Throws one UsageError that lists all errors, each with its
/// place (file:line:column or the override), the value, what was expected, and the nearest key for an unknown
/// one.
Recipe parse_recipe(std::string_view text, const std::string& source_name,
                    std::span<const std::string> overrides = {});

/// parse_recipe of a file. Throws UsageError when it cannot be read.
Recipe load_recipe(const std::filesystem::path& path, std::span<const std::string> overrides = {});

/// Checks ranges, choices and the relations between keys that need no model, data or machine. Throws one
/// UsageError that lists all errors. parse_recipe has done this; call it after changing a recipe in code.
void validate(const Recipe& recipe);

/// Throws one UsageError that lists every key whose value needs something titan does not have, and what to
/// use instead. Apart from parse_recipe, so that a recipe which cannot be trained yet can still be read and
/// planned.
void check_supported(const Recipe& recipe);

/// One line for each key that differs from its default and is accepted without effect, with the reason.
std::vector<std::string> notes(const Recipe& recipe);

/// One line for each value that can run but is probably a mistake (a warmup longer than the run).
std::vector<std::string> warnings(const Recipe& recipe);

/// Every key with its value, section by section; absent optionals are left out. parse_recipe gives it back
/// unchanged.
std::string to_toml(const Recipe& recipe);

struct Difference {
  std::string key;
  std::string old_value;  // as in TOML; "none" for an absent optional
  std::string new_value;
};

/// The keys whose values differ, in the order of the table.
std::vector<Difference> differences(const Recipe& old_recipe, const Recipe& new_recipe);

/// Every key with type, default and meaning, aligned, for a terminal.
std::string help_text();

/// The same as Markdown tables, one a section, with what works.
std::string markdown_table();

}  // namespace titan
