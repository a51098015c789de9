#include <CLI/CLI.hpp>

#include "app/command.h"
#include "engine/recipe/recipe.h"

namespace titan {
namespace {

/// "--key value" becomes "--key=value".
std::vector<std::string> join_values(const std::vector<std::string>& words) {
  std::vector<std::string> overrides;
  for (const std::string& word : words) {
    const bool is_option = word.starts_with("--");
    if (is_option || overrides.empty() || overrides.back().find('=') != std::string::npos)
      overrides.push_back(word);
    else
      overrides.back() += "=" + word;
  }
  return overrides;
}

}  // namespace

void RecipeArguments::add_to(CLI::App& command) {
  command_ = &command;
  command.add_option("recipe", path_, "The recipe, a TOML file");
  command.allow_extras();
  command.footer([] {
    return "Every key of the recipe can be set as --section.key=value. The keys:\n\n" + help_text();
  });
}

Recipe RecipeArguments::load() const { return load_recipe(path(), overrides()); }

const std::string& RecipeArguments::path() const {
  if (!path_.empty()) return path_;
  std::string name;  // "titan bench ops"
  for (const CLI::App* app = command_; app != nullptr; app = app->get_parent())
    name = app->get_name() + (name.empty() ? "" : " ") + name;
  throw UsageError(fmt::format("RECIPE is required; see {} --help", name));
}

std::vector<std::string> RecipeArguments::overrides() const { return join_values(command_->remaining()); }

}  // namespace titan
