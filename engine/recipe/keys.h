// The table of recipe keys: the one source of parsing, overrides, checks, help and documentation.
#pragma once

#include <span>
#include <string_view>

#include "engine/recipe/recipe.h"
#include "engine/recipe/value.h"

namespace titan {

/// What titan does with a key.
struct Support {
  enum Kind { works, no_effect, default_only } kind = works;
  std::string_view reason = "";  // why there is no effect, or what to use instead
  std::string_view also = "";    // default_only: other values that work, as TOML, with | between them
};

struct Key {
  std::string_view path;  // "training.seq_len"
  Value (*get)(const Recipe&);
  void (*set)(Recipe&, Value);  // the value holds the key's own type
  std::string_view doc;
  Domain domain = {};
  Support support = {};

  std::string_view section() const { return path.substr(0, path.rfind('.')); }  // "quantize.linear.float8"
  std::string_view name() const { return path.substr(path.rfind('.') + 1); }
};

/// All keys, section by section.
std::span<const Key> keys();

/// The key at a path, or null.
const Key* find_key(std::string_view path);

/// True for "quantize", "quantize.linear", ...: a path that keys lie under.
bool is_section(std::string_view path);

/// The current path of a key or section that had another name in some version of TorchTitan; else `path`
/// itself.
std::string_view current_name(std::string_view path);

/// The value in a recipe that sets nothing.
Value default_value(const Key& key);

}  // namespace titan
