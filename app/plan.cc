#include "app/trainer/plan.h"

#include <CLI/CLI.hpp>

#include "app/command.h"
#include "app/trainer/fit_report.h"
#include "app/trainer/session.h"
#include "engine/metrics/memory.h"
#include "engine/model/config.h"
#include "engine/profile/profile.h"
#include "engine/profile/trace.h"
#include "engine/program/dump.h"
#include "engine/recipe/recipe.h"
#include "kernels/cost/machine.h"
#include "parallelism/compile.h"
#include "parallelism/planner/fit.h"

namespace titan {
namespace {

class PlanCommand final : public Subcommand {
 public:
  CLI::App* add_to(CLI::App& app) override {
    CLI::App* command =
        app.add_subcommand("plan", "Show a recipe's parameters, FLOPs and memory, without running it");
    recipe_.add_to(*command);
    command->add_flag("--json", json_, "One JSON object");
    command->add_option(
        "--fit", fit_,
        "Find the largest batch and the fastest activation checkpointing that fit into this memory "
        "(24GiB), or into what is free here (auto)");
    command->add_flag("--dump", dump_, "Print the step program, a line a node");
    command->add_flag("--unroll", unroll_,
                      "With --dump: the whole step, with micro-batches, slots and waits");
    command->add_option("--trace", trace_,
                        "Write the predicted step to this file, for chrome://tracing or ui.perfetto.dev");
    command
        ->add_option("--program", program_,
                     "With --dump or --trace: initialize, refresh, train, train_staging or evaluate")
        ->capture_default_str();
    return command;
  }

  Exit run() override {
    const Recipe recipe = recipe_.load();
    report_keys(recipe);
    const Machine machine = machine_of(device_request(recipe));
    if (!fit_.empty()) return run_fit(recipe, machine);
    const Job job = compile(recipe, Mesh(), machine);
    if ((dump_ || !trace_.empty()) && !job.has(program_))
      throw UsageError(fmt::format("--program {}: this recipe has no such program", program_));
    if (!trace_.empty()) {
      const Program& program = job.program(program_);
      write_trace(trace_, program, predict(program, machine),
                  {.title = fmt::format("{}, predicted on {}", program_, machine.name),
                   .persistent_bytes = job.placement.space(Space::device).persistent_bytes});
    }
    if (dump_) {
      fmt::print("{}", dump(job.program(program_), {.values = !unroll_,
                                                    .unroll = unroll_,
                                                    .placement = &job.placement,
                                                    .program_index = job.index(program_)}));
      return Exit::ok;
    }
    const ModelConfig config = model_config(recipe);
    fmt::print("{}",
               json_ ? plan_json(recipe, config, job, machine) : plan_report(recipe, config, job, machine));
    return Exit::ok;
  }

 private:
  static std::int64_t free_memory(const Recipe& recipe, const Machine& machine) {
    if (machine.kind == DeviceKind::cpu) return machine_memory().available;
    return device_memory(device_request(recipe)).free_bytes - machine.reserved_bytes;
  }

  Exit run_fit(const Recipe& recipe, const Machine& machine) const {
    const std::int64_t bytes = fit_ == "auto" ? free_memory(recipe, machine) : parse_memory(fit_);
    const std::vector<FitCandidate> candidates = fit(recipe, Mesh(), machine, bytes);
    fmt::print("{}", json_ ? fit_json(candidates, bytes) : fit_report(candidates, bytes));
    return best_fit(candidates) == nullptr ? Exit::failed : Exit::ok;
  }

  /// What becomes of the recipe's keys. One that cannot be trained yet still has a model to count: as one
  /// rank, and said so.
  static void report_keys(const Recipe& recipe) {
    for (const std::string& note : notes(recipe)) fmt::print(stderr, "titan: note: {}\n", note);
    try {
      check_supported(recipe);
    } catch (const UsageError& error) {
      fmt::print(stderr, "titan: note: planned as one rank without these keys: {}\n", error.what());
    }
  }

  RecipeArguments recipe_;
  bool json_ = false, dump_ = false, unroll_ = false;
  std::string program_ = "train", trace_, fit_;
};

}  // namespace

std::unique_ptr<Subcommand> make_plan_command() { return std::make_unique<PlanCommand>(); }

}  // namespace titan
