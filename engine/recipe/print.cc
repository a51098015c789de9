// Recipe -> text: TOML, differences, help, documentation.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/recipe/keys.h"

namespace titan {
namespace {

std::string default_text(const Key& key) { return to_text(default_value(key)); }

std::string support_text(const Key& key) {
  switch (key.support.kind) {
    case Support::works:
      return "works";
    case Support::no_effect:
      return fmt::format("accepted, has no effect: {}", key.support.reason);
    case Support::default_only:
      return fmt::format("other values are not supported: {}", key.support.reason);
  }
  return "";
}

std::string meaning(const Key& key) {
  const std::string domain = describe(key.domain);
  return domain.empty() ? std::string(key.doc) : fmt::format("{} ({})", key.doc, domain);
}

// `|` ends a cell of a Markdown table.
std::string escape_cell(const std::string& text) {
  std::string cell;
  for (const char c : text) cell += c == '|' ? std::string("\\|") : std::string(1, c);
  return cell;
}

struct HelpWidths {
  size_t path = 0;
  size_t type = 0;
  size_t value = 0;

  void widen(const Key& key) {
    path = std::max(path, key.path.size());
    type = std::max(type, type_name(default_value(key)).size());
    value = std::max(value, default_text(key).size());
  }
};

// Calls begin(section) before the first key of each section, and row(key) for every key.
template <class Begin, class Row>
void by_section(Begin begin, Row row) {
  std::string_view section;
  for (const Key& key : keys()) {
    if (key.section() != section) begin(section = key.section());
    row(key);
  }
}

}  // namespace

std::string to_toml(const Recipe& recipe) {
  std::string text;
  by_section(
      [&](std::string_view section) { text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section); },
      [&](const Key& key) {
        const std::string value = to_text(key.get(recipe));
        if (value != "none") text += fmt::format("{} = {}\n", key.name(), value);
      });
  return text;
}

std::vector<Difference> differences(const Recipe& old_recipe, const Recipe& new_recipe) {
  std::vector<Difference> found;
  for (const Key& key : keys()) {
    const Value before = key.get(old_recipe);
    const Value after = key.get(new_recipe);
    if (before != after) found.push_back({std::string(key.path), to_text(before), to_text(after)});
  }
  return found;
}

std::string help_text() {
  std::map<std::string_view, HelpWidths> widths;  // by section
  for (const Key& key : keys()) widths[key.section()].widen(key);
  std::string text;
  by_section(
      [&](std::string_view section) { text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section); },
      [&](const Key& key) {
        const HelpWidths& width = widths[key.section()];
        text +=
            fmt::format("  --{:{}}  {:{}}  {:{}}  {}", key.path, width.path, type_name(default_value(key)),
                        width.type, default_text(key), width.value, meaning(key));
        text += key.support.kind == Support::works ? "\n" : fmt::format(" [{}]\n", support_text(key));
      });
  return text;
}

std::string markdown_table() {
  std::string text;
  by_section(
      [&](std::string_view section) {
        text +=
            fmt::format("{}### [{}]\n\n| key | type | default | meaning | status |\n|---|---|---|---|---|\n",
                        text.empty() ? "" : "\n", section);
      },
      [&](const Key& key) {
        text += fmt::format("| `{}` | {} | `{}` | {} | {} |\n", key.name(), type_name(default_value(key)),
                            default_text(key), escape_cell(meaning(key)), support_text(key));
      });
  return text;
}

}  // namespace titan
