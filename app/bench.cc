#include "app/bench/bench.h"

#include <CLI/CLI.hpp>
#include <fstream>

#include "app/bench/ops.h"
#include "app/command.h"
#include "app/option_checks.h"
#include "app/trainer/signals.h"
#include "engine/bench/html.h"
#include "engine/io/file.h"
#include "engine/recipe/recipe.h"

namespace titan {
namespace {

/// This process's command line, quoted where a shell needs it.
std::string own_command() {
  std::ifstream file("/proc/self/cmdline");
  std::string command;
  for (std::string word; std::getline(file, word, '\0');) {
    const bool plain =
        !word.empty() && word.find_first_of(" \t\n\"'$`\\*?[]{}()<>|&;!#~") == std::string::npos;
    std::string quoted = word;
    for (std::size_t at = 0; !plain && (at = quoted.find('\'', at)) != std::string::npos; at += 4)
      quoted.replace(at, 1, "'\\''");
    command += (command.empty() ? "" : " ") + (plain ? word : "'" + quoted + "'");
  }
  return command;
}

class BenchCommand final : public Subcommand {
 public:
  CLI::App* add_to(CLI::App& app) override {
    CLI::App* command = app.add_subcommand(
        "bench", "Train every combination of swept values for some steps, and compare speed and memory");
    recipe_.add_to(*command);
    command
        ->add_option(
            "--sweep", sweeps_,
            "section.key=a,b,c: run each value; several --sweep: every combination. Lists as [\"a\",\"b\"]")
        ->allow_extra_args(false);
    const CLI::Validator count = integer_in(1, 1'000'000);
    command->add_option("--steps", options_.steps, "Measured steps of each run")
        ->capture_default_str()
        ->check(count);
    command->add_option("--warmup", options_.warmup, "Steps before them that do not count")
        ->capture_default_str()
        ->check(integer_in(0, 1'000'000));
    command->add_option("--repeat", options_.repeat, "Runs of each combination; their steps are pooled")
        ->capture_default_str()
        ->check(count);
    command->add_option("--csv", csv_, "Write the table to this file, as CSV");
    command->add_option("--json", json_, "Write everything to this file, as JSON");
    command->add_option("--html", html_, "Write a page with charts to this file; it needs no network");

    ops_ =
        command->add_subcommand("ops", "Time each operation of a recipe's step against the machine's limits");
    ops_recipe_.add_to(*ops_);
    ops_->add_option("--filter", filter_, "Only operations whose name or shape holds this");
    ops_->add_option("--steps", ops_steps_, "Steps whose median is shown")
        ->capture_default_str()
        ->check(count);
    ops_->add_flag("--json", ops_json_, "One JSON object");
    return command;
  }

  Exit run() override {
    if (ops_->parsed()) return run_ops();
    options_.executable = "/proc/self/exe";
    options_.recipe = recipe_.path();
    options_.overrides = recipe_.overrides();
    for (const std::string& sweep : sweeps_) options_.sweeps.push_back(parse_sweep(sweep));
    for (const std::string& path : {csv_, json_, html_}) check_writable(path);
    stop_noted_signals();
    BenchReport report = run_bench(options_, [] { return stop_signal() != nullptr; });
    report.command = own_command();
    fmt::print("{}", bench_table(report));
    if (!csv_.empty()) write_file_atomically(csv_, bench_csv(report));
    if (!json_.empty()) write_file_atomically(json_, bench_json(report));
    if (!html_.empty()) write_file_atomically(html_, bench_html(report));
    if (stop_signal() != nullptr) return Exit::stopped_by_signal;
    return any_ran(report) ? Exit::ok : Exit::failed;
  }

 private:
  /// A first signal ends the run in progress, what is done is told; a second ends everything.
  static void stop_noted_signals() {
    stop_at_once_on_signals("stopped before the first run");
    note_stop_signals();
    ignore_write_signals();
  }

  /// Better now than after an hour.
  static void check_writable(const std::string& path) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (!path.empty() && !folder.empty() && !std::filesystem::is_directory(folder))
      throw UsageError(fmt::format("{}: the folder {} does not exist", path, folder.string()));
  }

  Exit run_ops() {
    const OpsReport report = bench_ops(ops_recipe_.load(), ops_steps_);
    fmt::print("{}", ops_json_ ? ops_json(report, filter_) : ops_table(report, filter_));
    return Exit::ok;
  }

  RecipeArguments recipe_, ops_recipe_;
  BenchOptions options_;
  std::vector<std::string> sweeps_;
  std::string csv_, json_, html_, filter_;
  CLI::App* ops_ = nullptr;
  int ops_steps_ = 5;
  bool ops_json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_bench_command() { return std::make_unique<BenchCommand>(); }

}  // namespace titan
