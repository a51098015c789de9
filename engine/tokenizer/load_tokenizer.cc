#include <algorithm>

#include "engine/io/file.h"
#include "engine/io/json.h"
#include "engine/tokenizer/bpe_tokenizer.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

using json = nlohmann::ordered_json;  // new ids follow the order of the file
namespace fs = std::filesystem;

constexpr const char* kBosNames[] = {"<|begin_of_text|>", "<s>"};
constexpr const char* kEosNames[] = {"<|end_of_text|>", "</s>"};
// The members of tokenizer_config.json that name one special token each.
constexpr const char* kNamedTokens[] = {"bos_token", "eos_token", "pad_token", "unk_token",
                                        "sep_token", "cls_token", "mask_token"};

std::optional<int32_t> find_token(const BpeDescription& description, std::string_view content) {
  for (const AddedToken& token : description.added) {
    if (token.content == content) return token.id;
  }
  const std::vector<std::string>& tokens = description.model.tokens;
  const auto found = std::find(tokens.begin(), tokens.end(), content);
  if (content.empty() || found == tokens.end()) return std::nullopt;
  return static_cast<int32_t>(found - tokens.begin());
}

// A special token is written as a string or as an object with its flags. Gives its id, a new one if need be.
int32_t add_special_token(const json& token, const std::string& place, BpeDescription& description) {
  const json& content = token.is_object() ? token.value("content", json()) : token;
  if (!content.is_string() || content == "") {
    throw UserError(fmt::format("{}: expected a string, or an object with \"content\"", place));
  }
  AddedToken added{.content = content.get<std::string>()};
  const std::optional<int32_t> known = find_token(description, added.content);
  const auto is_same = [&](const AddedToken& other) { return other.content == added.content; };
  if (std::any_of(description.added.begin(), description.added.end(), is_same)) return *known;
  added.id = known.value_or(static_cast<int32_t>(description.model.tokens.size()));
  if (token.is_object()) {
    const auto flag = [&](const char* name) { return token.contains(name) && token[name] == true; };
    added.normalized = flag("normalized");
    added.lstrip = flag("lstrip");
    added.rstrip = flag("rstrip");
    added.single_word = flag("single_word");
  }
  description.model.set_token(added.id, added.content);
  description.added.push_back(added);
  return added.id;
}

json read_config(const fs::path& path) {
  try {
    json config = parse_json<json>(read_text(path));
    if (!config.is_object()) throw JsonError("not a JSON object");
    return config;
  } catch (const JsonError& error) {
    throw UserError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

void apply_config(const fs::path& path, BpeDescription& description) {
  const json config = read_config(path);
  for (const char* name : kNamedTokens) {
    if (!config.contains(name)) continue;
    const json& token = config[name];
    std::optional<int32_t> id;
    if (!token.is_null())
      id = add_special_token(token, fmt::format("{}: {}", path.string(), name), description);
    if (name == std::string_view("bos_token")) description.bos = id;
    if (name == std::string_view("eos_token")) description.eos = id;
  }
  const json listed = config.value("added_tokens_decoder", json::object());
  for (const auto& [id, token] : listed.items()) {
    add_special_token(token, fmt::format("{}: added_tokens_decoder.{}", path.string(), id), description);
  }
}

template <size_t N>
std::optional<int32_t> find_first(const BpeDescription& description, const char* const (&names)[N]) {
  for (const char* name : names) {
    if (const auto id = find_token(description, name)) return id;
  }
  return std::nullopt;
}

fs::path find_file(const fs::path& path) {
  if (!fs::exists(path)) {
    throw UserError(
        fmt::format("no tokenizer at {}: expected a tokenizer.json, a tokenizer.model, a folder with one, "
                    "or the word \"byte\"",
                    path.string()));
  }
  if (fs::is_regular_file(path)) return path;
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    if (fs::is_regular_file(path / name)) return path / name;
  }
  throw UserError(fmt::format("{} holds neither a tokenizer.json nor a tokenizer.model", path.string()));
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& path) {
  if (path == "byte") return make_byte_tokenizer();
  const fs::path file = find_file(path);
  if (file.extension() != ".json" && file.extension() != ".model") {
    throw UserError(
        fmt::format("{}: a tokenizer file ends in .json (Hugging Face) or .model (Llama 3)", file.string()));
  }
  BpeDescription description =
      file.extension() == ".json" ? read_tokenizer_json(file) : read_tiktoken_ranks(file);

  description.eos = find_first(description, kEosNames);
  if (!description.bos) description.bos = find_first(description, kBosNames);
  const fs::path config = file.parent_path() / "tokenizer_config.json";
  if (fs::exists(config)) apply_config(config, description);
  return make_bpe_tokenizer(std::move(description));
}

}  // namespace titan
