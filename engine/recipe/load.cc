// TOML text and overrides -> Recipe. Problems are collected with their places and thrown together.
#include <fmt/format.h>

// Some of toml++'s assertions fail on broken text, which the code after them reports: they end no process.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include "engine/recipe/toml_parser.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <tuple>

#include "engine/recipe/check.h"
#include "engine/recipe/keys.h"
#include "engine/recipe/spelling.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

using Strings = std::vector<std::string>;

// Where a value was written: in the file, or after every line of it, on the command line.
struct Place {
  std::string file;  // empty: an override
  size_t line = 0;
  size_t column = 0;

  std::string text() const {
    if (file.empty()) return "command line";
    return line == 0 ? file : fmt::format("{}:{}:{}", file, line, column);
  }
  auto order() const { return std::tuple(file.empty(), line, column); }
};

// read(node, out): takes the node when it has out's type.
bool read(const toml::node& node, int64_t& out) {
  if (!node.is_integer()) return false;
  out = node.ref<int64_t>();
  return true;
}

bool read(const toml::node& node, double& out) {
  if (!node.is_number()) return false;
  out = *node.value<double>();
  return true;
}

bool read(const toml::node& node, bool& out) {
  if (!node.is_boolean()) return false;
  out = node.ref<bool>();
  return true;
}

bool read(const toml::node& node, std::string& out) {
  if (!node.is_string()) return false;
  out = node.ref<std::string>();
  return true;
}

// Reads a list item by item.
template <class T, class ReadItem>
bool read_list(const toml::node& node, std::vector<T>& out, ReadItem read_item) {
  const toml::array* array = node.as_array();
  if (!array) return false;
  out.clear();
  return std::all_of(array->begin(), array->end(),
                     [&](const toml::node& item) { return read_item(item, out.emplace_back()); });
}

bool read_strings(const toml::node& node, Strings& out) {
  return read_list(node, out, [](const toml::node& item, std::string& text) { return read(item, text); });
}

bool read(const toml::node& node, Strings& out) {
  if (!node.is_string()) return read_strings(node, out);
  out = split(node.ref<std::string>(), ',');  // "a,b", as on the command line
  return true;
}

bool read(const toml::node& node, std::vector<Strings>& out) { return read_list(node, out, read_strings); }

template <class T>
bool read(const toml::node& node, std::optional<T>& out) {
  return read(node, out.emplace());
}

std::string show(const toml::node& node) {
  return node.visit([](const auto& held) -> std::string {
    std::ostringstream text;
    if constexpr (toml::is_string<decltype(held)>) {
      return quote(held.get());
    } else if constexpr (toml::is_table<decltype(held)>) {
      return "a section";
    } else {
      text << held;
      return text.str();
    }
  });
}

// The TOML of an override's value, so that file and command line share one reader: strings need no quotes,
// lists no brackets.
std::string override_as_toml(const std::string& text, const Value& type) {
  const std::string_view name = type_name(type);
  const bool is_quoted = text.starts_with('"') || text.starts_with('\'');
  if (name == "string" && !is_quoted) return quote(text);
  if (name == "list of strings" && !is_quoted && !text.starts_with('[')) return to_text(split(text, ','));
  return text;
}

class Loader {
 public:
  void read_file(std::string_view text, const std::string& file) {
    file_ = file;
    try {
      read_table(toml::parse(text), "");
    } catch (const toml::parse_error& error) {
      fail(place_of(error.source()), fmt::format("invalid TOML: {}", error.description()));
    }
  }

  // "--section.key=value", or "--section.key" for true.
  void read_override(const std::string& text, size_t index) {
    const Place place{.file = "", .line = index};
    const size_t equals = text.find('=');
    if (!text.starts_with("--") || text.find('.') > equals)
      return fail(place, fmt::format("{}: expected --section.key=value", text));
    const std::string path = text.substr(2, equals == std::string::npos ? equals : equals - 2);
    const Key* key = resolve(path);
    if (!key) return fail_unknown_key(place, path);
    const Value type = default_value(*key);
    if (equals == std::string::npos) {
      if (type_name(type) != "boolean")
        return fail(place, fmt::format("--{}: needs a value: --{}=VALUE, {}", path, path,
                                       expectation(key->domain, type)));
      return assign(*key, toml::value<bool>(true), "true", place);
    }
    read_override_value(*key, text.substr(equals + 1), place);
  }

  Recipe finish() {
    for (Problem& problem : problems(recipe_)) fail(place_of_key(problem.key), std::move(problem.message));
    if (errors_.empty()) return std::move(recipe_);
    std::stable_sort(errors_.begin(), errors_.end(),
                     [](const Error& a, const Error& b) { return a.place.order() < b.place.order(); });
    std::vector<std::string> lines;
    for (const Error& error : errors_)
      lines.push_back(fmt::format("{}: {}", error.place.text(), error.message));
    throw UsageError(join_errors(lines));
  }

 private:
  struct Error {
    Place place;
    std::string message;
  };

  void fail(Place place, std::string message) { errors_.push_back({std::move(place), std::move(message)}); }

  Place place_of(const toml::source_region& source) const {
    return {file_, source.begin.line, source.begin.column};
  }

  // A key that nobody set can be to blame for a broken relation: then the file as a whole is the place.
  Place place_of_key(std::string_view key) const {
    const auto found = places_.find(key);
    return found == places_.end() ? Place{.file = file_} : found->second;
  }

  static const Key* resolve(const std::string& path) {
    if (const Key* key = find_key(current_name(path))) return key;
    const size_t dot = path.rfind('.');  // an old section name
    if (dot == std::string::npos) return nullptr;
    return find_key(fmt::format("{}{}", current_name(path.substr(0, dot)), path.substr(dot)));
  }

  void read_table(const toml::table& table, const std::string& prefix) {
    for (const auto& [name, node] : table) {
      const std::string path = prefix + std::string(name.str());
      if (const Key* key = resolve(path)) {
        read_value(*key, node);
      } else if (is_section(current_name(path))) {
        read_section(path, node);
      } else if (node.is_table()) {
        fail_unknown_section(place_of(name.source()), path);
      } else {
        fail_unknown_key(place_of(name.source()), path);
      }
    }
  }

  void read_section(const std::string& path, const toml::node& node) {
    const toml::table* section = node.as_table();
    if (!section)
      return fail(place_of(node.source()),
                  fmt::format("{} = {}: expected a section, [{}]", path, show(node), path));
    read_table(*section, std::string(current_name(path)) + ".");
  }

  void read_value(const Key& key, const toml::node& node) {
    const Place place = place_of(node.source());
    if (const auto first = places_.find(key.path); first != places_.end())
      return fail(place, fmt::format("{} is set twice: also at {}", key.path, first->second.text()));
    assign(key, node, show(node), place);
  }

  void read_override_value(const Key& key, const std::string& text, const Place& place) {
    const Value type = default_value(key);
    const bool optional =
        std::visit([](const auto& held) { return is_optional<std::decay_t<decltype(held)>>; }, type);
    if (optional && text == "none") return key.set(recipe_, type);
    try {
      const toml::table parsed = toml::parse(fmt::format("value = {}", override_as_toml(text, type)));
      if (parsed.size() == 1) return assign(key, *parsed.get("value"), text, place);
    } catch (const toml::parse_error&) {  // reported as what it is to the user: not a value of this type
    }
    fail_type(key, text, place);
  }

  void assign(const Key& key, const toml::node& node, const std::string& shown, const Place& place) {
    places_[key.path] = place;
    Value value = default_value(key);
    if (!std::visit([&](auto& held) { return read(node, held); }, value)) return fail_type(key, shown, place);
    key.set(recipe_, std::move(value));
  }

  void fail_type(const Key& key, const std::string& shown, const Place& place) {
    fail(place,
         fmt::format("{} = {}: expected {}", key.path, shown, expectation(key.domain, default_value(key))));
  }

  void fail_unknown_key(const Place& place, const std::string& path) {
    const std::string_view meant = suggest_key(path);
    fail(place, meant.empty() ? fmt::format("unknown key {}; `titan train --help` lists all keys", path)
                              : fmt::format("unknown key {}; did you mean {}?", path, meant));
  }

  void fail_unknown_section(const Place& place, const std::string& path) {
    const std::string_view meant = suggest_section(path);
    fail(place, meant.empty()
                    ? fmt::format("unknown section [{}]; `titan train --help` lists all sections", path)
                    : fmt::format("unknown section [{}]; did you mean [{}]?", path, meant));
  }

  // The nearest spelling, else the same name in another section.
  static std::string_view suggest_key(std::string_view path) {
    std::vector<std::string_view> paths;
    for (const Key& key : keys()) paths.push_back(key.path);
    if (const std::string_view meant = nearest(path, paths); !meant.empty()) return meant;
    const std::string_view name = path.substr(path.rfind('.') + 1);
    const auto same =
        std::find_if(keys().begin(), keys().end(), [&](const Key& key) { return key.name() == name; });
    return same == keys().end() ? "" : same->path;
  }

  static std::string_view suggest_section(std::string_view path) {
    std::vector<std::string_view> sections;
    for (const Key& key : keys()) sections.push_back(key.section());
    return nearest(path, sections);
  }

  std::string file_;
  Recipe recipe_;
  std::map<std::string_view, Place> places_;  // of the last value of each key
  std::vector<Error> errors_;
};

}  // namespace

Recipe parse_recipe(std::string_view text, const std::string& source_name,
                    std::span<const std::string> overrides) {
  Loader loader;
  loader.read_file(text, source_name);
  for (size_t i = 0; i < overrides.size(); ++i) loader.read_override(overrides[i], i);
  return loader.finish();
}

Recipe load_recipe(const std::filesystem::path& path, std::span<const std::string> overrides) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw UsageError(fmt::format("{}: a folder, not a recipe", path.string()));
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw UsageError(fmt::format("{}: cannot read the recipe: {}", path.string(), std::strerror(errno)));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return parse_recipe(text, path.string(), overrides);
}

}  // namespace titan
