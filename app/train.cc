#include <CLI/CLI.hpp>

#include "app/command.h"
#include "app/trainer/signals.h"
#include "app/trainer/trainer.h"
#include "engine/recipe/recipe.h"

namespace titan {
namespace {

class TrainCommand final : public Subcommand {
 public:
  CLI::App* add_to(CLI::App& app) override {
    CLI::App* command = app.add_subcommand("train", "Train a model from a recipe");
    recipe_.add_to(*command);
    command->add_flag("--dry-run", options_.dry_run, "Do every check and report the plan; run nothing");
    command->add_flag_callback("--help-markdown", print_key_tables, "Print all keys as Markdown and exit");
    return command;
  }

  Exit run() override {
    stop_at_once_on_signals("stopped before the first step: nothing to save; prepared data is kept");
    const Recipe recipe = recipe_.load();
    if (recipe.job.print_config) fmt::print("{}", to_toml(recipe));
    return train(recipe, options_);
  }

 private:
  static void print_key_tables() {
    fmt::print("{}", markdown_table());
    throw CLI::Success();
  }

  RecipeArguments recipe_;
  TrainOptions options_;
};

}  // namespace

std::unique_ptr<Subcommand> make_train_command() { return std::make_unique<TrainCommand>(); }

}  // namespace titan
