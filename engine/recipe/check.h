// What is wrong with a recipe's values, key by key, so that the parser can add the place where each was
// written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/recipe/recipe.h"

namespace titan {

struct Problem {
  std::string_view key;  // the path the user should look at
  std::string message;
};

/// The problems that `validate` throws.
std::vector<Problem> problems(const Recipe& recipe);

/// One message of many: a line alone, or a headline and a line each.
std::string join_errors(const std::vector<std::string>& lines);

}  // namespace titan
