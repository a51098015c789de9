// One subcommand of the titan executable. Each has a file of its own; main.cc only lists them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/base/error.h"

namespace CLI {
class App;
}

namespace titan {

struct Recipe;

class Subcommand {
 public:
  virtual ~Subcommand() = default;
  /// Adds the subcommand with its options to `app` and returns it.
  virtual CLI::App* add_to(CLI::App& app) = 0;
  /// Runs with the parsed options. stdout is for results, the log goes to stderr. Throws UserError.
  virtual Exit run() = 0;
};

std::unique_ptr<Subcommand> make_train_command();
std::unique_ptr<Subcommand> make_plan_command();
std::unique_ptr<Subcommand> make_bench_command();
std::unique_ptr<Subcommand> make_data_command();
std::unique_ptr<Subcommand> make_checkpoint_command();
std::unique_ptr<Subcommand> make_generate_command();
std::unique_ptr<Subcommand> make_eval_command();
std::unique_ptr<Subcommand> make_doctor_command();

/// RECIPE and its overrides, as `train` and `plan` take them: "--training.steps=50", "--training.steps 50" or
/// a bare flag.
class RecipeArguments {
 public:
  void add_to(CLI::App& command);
  /// Throws UsageError with all that is wrong.
  Recipe load() const;
  /// Throws UsageError when there is none.
  const std::string& path() const;
  std::vector<std::string> overrides() const;  ///< "--section.key=value"

 private:
  std::string path_;
  CLI::App* command_ = nullptr;
};

}  // namespace titan
