#include "app/bench/bench.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/bench/child.h"
#include "app/bench/peak.h"
#include "app/bench/sweep_keys.h"
#include "app/trainer/machine_report.h"
#include "app/trainer/plan.h"
#include "app/trainer/run_data.h"
#include "app/trainer/session.h"
#include "engine/metrics/flops.h"
#include "engine/metrics/memory.h"
#include "engine/model/config.h"
#include "engine/profile/profile.h"
#include "engine/recipe/recipe.h"
#include "kernels/base/error.h"
#include "kernels/base/philox.h"
#include "parallelism/compile.h"

namespace titan {
namespace {

namespace fs = std::filesystem;

/// A folder that ends with the bench.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "titan-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw UserError(fmt::format("cannot create a folder in {}: {}; set TMPDIR to one that can be written",
                                  fs::temp_directory_path().string(), std::strerror(errno)));
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// What every run of a bench sets: nothing but steps, and each of them logged.
std::vector<std::string> fixed_overrides(const BenchOptions& options) {
  return {fmt::format("--training.steps={}", options.warmup + options.steps),
          "--metrics.log_freq=1",
          "--metrics.save_jsonl=true",
          "--metrics.enable_tensorboard=false",
          "--metrics.log_parameter_norms=false",
          "--checkpoint.enable=false",
          "--validation.enable=false",
          "--profiling.enable_profiling=false"};
}

const char* const kPaths[] = {"job.dump_folder", "training.data_cache"};  ///< set for every run, too

std::string key_of(const std::string& override_text) {
  return override_text.substr(2, override_text.find('=') - 2);
}

/// The keys that a sweep cannot have.
std::vector<std::string> taken_keys(const BenchOptions& options) {
  std::vector<std::string> taken(std::begin(kPaths), std::end(kPaths));
  for (const std::string& fixed : fixed_overrides(options)) taken.push_back(key_of(fixed));
  return taken;
}

/// One combination and what is known of it before it runs.
struct Planned {
  Trial trial;
  std::vector<std::string> overrides;
  Recipe recipe;
  bool runs = false;
  double tokens_per_step = 0, flops_per_token = 0;
  ProgramTotals totals;
  DeviceRequest request;
  bool multiplies_float8 = false;
  std::string device;
  std::vector<double> samples;  ///< seconds of measured steps
};

void refuse(Planned& p, Trial::Status status, const std::string& message) {
  p.runs = false;
  p.trial.status = status;
  p.trial.message = first_error_line(message);
}

Planned plan(const BenchOptions& options, const std::vector<Sweep>& sweeps,
             const std::vector<std::string>& values) {
  Planned p;
  p.trial.values = values;
  p.overrides = options.overrides;
  for (std::size_t i = 0; i < values.size(); ++i)
    p.overrides.push_back(fmt::format("--{}={}", sweeps[i].key, values[i]));
  for (std::string& fixed : fixed_overrides(options)) p.overrides.push_back(std::move(fixed));
  try {
    p.recipe = load_recipe(options.recipe, p.overrides);
    check_supported(p.recipe);
    const Machine machine = machine_of(device_request(p.recipe));
    const Job job = compile(p.recipe, Mesh(), machine);
    const StepShape shape = training_shape(p.recipe, Mesh());
    p.request = device_request(p.recipe);
    p.request.gemm_table.clear();  // a peak is the heuristic's, and leaves no file
    p.multiplies_float8 = multiplies_float8(machine);
    p.device = machine.name;
    p.totals = totals(job.program("train"), machine);
    p.tokens_per_step = static_cast<double>(shape.tokens() * shape.micro_batches);
    p.flops_per_token = model_flops(p.recipe, model_config(p.recipe));
    p.trial.predicted_bytes =
        job.placement.space(Space::device).arena_bytes + job.placement.space(Space::host).arena_bytes;
    p.runs = true;
    try {
      check_memory(job, device_request(p.recipe));
    } catch (const UserError& error) {
      refuse(p, Trial::Status::out_of_memory, error.what());
    }
  } catch (const UserError& error) {
    refuse(p, Trial::Status::invalid, error.what());
  }
  return p;
}

/// Documents of random words, at least `bytes` of them, always the same.
void write_text(const fs::path& path, std::int64_t bytes) {
  constexpr int kWords = 4096, kWordsOfDocument = 300;
  std::uint32_t count = 0;
  const auto random = [&, key = philox_key(0, hash_name("bench text"))](std::uint32_t below) {
    return philox(key, {count++, 0, 0, 0})[0] % below;
  };
  std::vector<std::string> words;
  for (int i = 0; i < kWords; ++i) {
    std::string& word = words.emplace_back();
    for (std::uint32_t letters = 1 + random(9); letters > 0; --letters)
      word += static_cast<char>('a' + std::min(random(26), random(26)));
  }
  std::ofstream file(path);
  for (std::int64_t written = 0; written < bytes;) {
    std::string document;
    for (int i = 0; i < kWordsOfDocument; ++i)
      document += (i == 0 ? "" : " ") + words[std::min(random(kWords), random(kWords))];
    file << "{\"text\": \"" << document << "\"}\n";
    written += static_cast<std::int64_t>(document.size());
  }
  if (!file.flush()) throw UserError(fmt::format("cannot write {}: the disk is full", path.string()));
}

/// Where the data of a run is: the recipe's, with its cache, or made once. Made text needs no tokenizer file.
class BenchData {
 public:
  BenchData(const fs::path& folder, const std::vector<Planned>& planned) : folder_(folder) {
    for (const Planned& p : planned)
      if (p.runs) bytes_ = std::max(bytes_, 16 * p.recipe.training.seq_len);
  }

  std::vector<std::string> overrides(const Recipe& recipe) {
    if (!recipe.training.dataset_path.empty())
      return {"--training.data_cache=" + data_cache(recipe).string()};
    const fs::path text = folder_ / "text.jsonl";
    if (!fs::exists(text)) write_text(text, bytes_);
    std::vector<std::string> overrides{"--training.dataset_path=" + text.string(),
                                       "--training.data_cache=" + (folder_ / "tokens").string()};
    const std::string& tokenizer = tokenizer_path(recipe);
    if (tokenizer != "byte" && !fs::exists(tokenizer)) overrides.emplace_back("--model.tokenizer=byte");
    return overrides;
  }

 private:
  fs::path folder_;
  std::int64_t bytes_ = std::int64_t{1} << 20;
};

/// Seconds of the steps after the warm-up.
std::vector<double> step_seconds(const fs::path& metrics, int warmup) {
  std::vector<double> seconds;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.value("kind", "") == "train" && json.value("step", 0) > warmup)
      seconds.push_back(json.value("end_to_end_seconds", 0.0));
  }
  return seconds;
}

/// Told by the backend, by the trainer or by the system, in their words.
bool tells_of_memory(const std::string& message) {
  for (const char* words : {"out of memory", "not enough memory", " of memory", "address space"})
    if (message.find(words) != std::string::npos) return true;
  return false;
}

class Bench {
 public:
  Bench(const BenchOptions& options, FunctionRef<bool()> stop) : options_(options), stop_(stop) {}

  BenchReport run() {
    const std::vector<Sweep> sweeps = checked_sweeps(options_.sweeps, taken_keys(options_));
    std::vector<std::string> base = options_.overrides;
    for (std::string& fixed : fixed_overrides(options_)) base.push_back(std::move(fixed));
    report_.recipe_toml = to_toml(load_recipe(options_.recipe, base));
    report_.recipe = options_.recipe;
    report_.machine = machine_report();
    report_.steps = options_.steps;
    report_.warmup = options_.warmup;
    report_.repeat = options_.repeat;
    for (const Sweep& sweep : sweeps) report_.keys.push_back(sweep.key);
    std::vector<Planned> planned;
    for (const auto& values : combinations(sweeps)) planned.push_back(plan(options_, sweeps, values));

    BenchData data(folder_.path(), planned);
    bool stopped = false;
    for (int repetition = 0; repetition < options_.repeat && !stopped; ++repetition)
      for (std::size_t i = 0; i < planned.size() && !stopped; ++i) {
        Planned& p = planned[i];
        if (p.runs && !(stopped = stop_())) stopped = !train(p, data);
        if (!stopped) tell(p, i, planned.size(), repetition);
      }
    std::size_t left_out = 0;
    for (Planned& p : planned) {
      if (p.runs && p.samples.empty())
        ++left_out;  // stopped before
      else
        report_.trials.push_back(finished(p));
    }
    if (stopped)
      report_.notes.push_back(fmt::format("Stopped by a signal; {} of {} combinations were not measured.",
                                          left_out, planned.size()));
    add_peak_notes();
    return std::move(report_);
  }

 private:
  /// False when a signal stopped it.
  bool train(Planned& p, BenchData& data) {
    const fs::path folder = folder_.path() / fmt::format("run-{}", ++runs_);
    fs::create_directory(folder);
    std::vector<std::string> arguments{"train", options_.recipe};
    arguments.insert(arguments.end(), p.overrides.begin(), p.overrides.end());
    for (std::string& more : data.overrides(p.recipe)) arguments.push_back(std::move(more));
    arguments.push_back("--job.dump_folder=" + folder.string());
    const ChildResult child = run_child(options_.executable, arguments, folder / "log", stop_);
    if (stop_()) return false;
    p.trial.peak_resident_bytes = std::max(p.trial.peak_resident_bytes, child.peak_resident_bytes);
    const std::vector<double> seconds = step_seconds(folder / "metrics.jsonl", options_.warmup);
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    if (child.signal == SIGKILL)
      refuse(p, Trial::Status::out_of_memory, "ended by SIGKILL, as the system does when memory is short");
    else if (child.signal != 0)
      refuse(p, Trial::Status::failed,
             fmt::format("ended by signal {} ({})", child.signal, strsignal(child.signal)));
    else if (child.exit == static_cast<int>(Exit::usage))
      refuse(p, Trial::Status::invalid, child.error);
    else if (child.exit != 0)
      refuse(p, tells_of_memory(child.error) ? Trial::Status::out_of_memory : Trial::Status::failed,
             child.error.empty() ? fmt::format("exit status {}", child.exit) : child.error);
    else if (static_cast<int>(seconds.size()) != options_.steps)
      refuse(p, Trial::Status::failed,
             fmt::format("{} of {} measured steps are in its metrics", seconds.size(), options_.steps));
    else
      p.samples.insert(p.samples.end(), seconds.begin(), seconds.end());
    return true;
  }

  static std::string name(const Planned& p, const std::vector<std::string>& keys) {
    std::string text;
    for (std::size_t i = 0; i < keys.size(); ++i) text += fmt::format(" {}={}", keys[i], p.trial.values[i]);
    return text;
  }

  void tell(const Planned& p, std::size_t index, std::size_t count, int repetition) const {
    if (!p.runs && repetition > 0 && p.samples.empty()) return;  // told before
    const std::string head = fmt::format("{}/{}{}", index + 1, count, name(p, report_.keys));
    if (p.runs) {
      const double median = spread(p.samples).median;
      spdlog::info("{}: step {}, {:.0f} tokens/s", head, seconds_text(median), p.tokens_per_step / median);
    } else {
      spdlog::warn("{}: {}: {}", head, to_string(p.trial.status), p.trial.message);
    }
  }

  Trial finished(Planned& p) {
    Trial& t = p.trial;
    if (!p.runs) return t;
    t.step_seconds = spread(p.samples);
    t.tokens_per_second = p.tokens_per_step / t.step_seconds.median;
    t.tflops = tflops(p.flops_per_token, t.tokens_per_second);
    t.mfu = mfu(p.flops_per_token, t.tokens_per_second, peak_flops(p.device));
    double gemm_seconds = 0;
    const DType float8 = p.multiplies_float8 ? DType::f8e4m3 : DType::bf16;
    for (const auto& [dtype, flops] :
         {std::pair{DType::bf16, p.totals.gemm_flops_bf16}, std::pair{DType::f32, p.totals.gemm_flops_f32},
          std::pair{float8, p.totals.gemm_flops_f8}})
      if (flops > 0) gemm_seconds += static_cast<double>(flops) / peak(dtype, p.request);
    t.speed_of_light = 100 * gemm_seconds / t.step_seconds.median;
    return t;
  }

  /// Measured once for each type and device.
  double peak(DType dtype, const DeviceRequest& request) {
    const bool gpu = choose_device(request) == DeviceKind::cuda;
    const int threads = gpu ? 0 : compute_threads(request.threads);
    double& flops = peaks_[{dtype, threads}];
    if (flops == 0) flops = measure_gemm_peak(dtype, request);
    return flops;
  }

  void add_peak_notes() {
    for (const auto& [of, flops] : peaks_) {
      const auto [dtype, threads] = of;
      const std::string device =
          threads == 0 ? "the GPU" : fmt::format("{} thread{}", threads, threads == 1 ? "" : "s");
      report_.notes.push_back(fmt::format("Peak of {} matrix products on {}, measured here: {:.3g} TFLOP/s.",
                                          to_string(dtype), device, flops * 1e-12));
    }
  }

  const BenchOptions& options_;
  FunctionRef<bool()> stop_;
  TemporaryFolder folder_;
  BenchReport report_;
  int runs_ = 0;
  std::map<std::pair<DType, int>, double> peaks_;  ///< by type and threads, 0: the GPU
};

}  // namespace

BenchReport run_bench(const BenchOptions& options, FunctionRef<bool()> stop) {
  return Bench(options, stop).run();
}

bool any_ran(const BenchReport& report) {
  return std::any_of(report.trials.begin(), report.trials.end(),
                     [](const Trial& t) { return t.status == Trial::Status::ok; });
}

}  // namespace titan
