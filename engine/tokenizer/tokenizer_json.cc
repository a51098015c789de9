// Hugging Face's tokenizer.json. Every field that changes ids is either followed or refused by name.
#include <spdlog/spdlog.h>

#include "engine/io/file.h"
#include "engine/tokenizer/bpe_tokenizer.h"
#include "engine/tokenizer/byte_level.h"
#include "engine/tokenizer/content_hash.h"
#include "engine/tokenizer/tokenizer_json_parse.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

using nlohmann::json;

// A member of a JSON object with the path that messages name; null where it is missing.
struct Field {
  const json& value;
  std::string place;

  Field operator[](const std::string& key) const {
    static const json kNull;
    const auto found = value.is_object() ? value.find(key) : value.end();
    const bool present = value.is_object() && found != value.end();
    return {present ? *found : kNull, place.empty() ? key : place + "." + key};
  }
  Field operator[](size_t i) const { return {value[i], fmt::format("{}[{}]", place, i)}; }
  size_t size() const { return value.size(); }

  [[noreturn]] void fail(std::string_view expected) const {
    std::string shown = value.dump(-1, ' ', false, json::error_handler_t::replace);
    if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
    throw UserError(fmt::format("{} is {}; {}", place, shown, expected));
  }
  bool flag(bool fallback) const {
    if (value.is_null()) return fallback;
    if (!value.is_boolean()) fail("expected true or false");
    return value.get<bool>();
  }
  const std::string& text() const {
    if (!value.is_string()) fail("expected a string");
    return value.get_ref<const std::string&>();
  }
  const Field& array() const {
    if (!value.is_array()) fail("expected a list");
    return *this;
  }
  bool empty() const { return value.is_null() || value == "" || value == 0; }
};

// Looks tokens up as the file spells them.
struct Vocabulary {
  const TokenizerJson& document;
  StringTable ids;

  explicit Vocabulary(const TokenizerJson& d) : document(d), ids(d.vocab.size()) {
    for (const TokenizerJson::Entry& entry : d.vocab) {
      const std::string_view spelled = d.view(entry.offset, entry.size);
      if (!ids.insert(spelled, entry.id))
        throw UserError(fmt::format("model.vocab: \"{}\" occurs twice", spelled));
    }
  }

  int32_t merge_part(size_t index, std::string_view spelled) const {
    const int32_t id = ids.find(spelled);
    if (id == StringTable::kAbsent) {
      throw UserError(fmt::format("model.merges: entry {} needs the token \"{}\", which model.vocab lacks",
                                  index, spelled));
    }
    return id;
  }
};

void check_model(const Field& model) {
  if (!model.value.is_object()) model.fail("expected an object: is this a tokenizer.json?");
  if (!model["type"].empty() && model["type"].text() != "BPE")
    model["type"].fail("only \"BPE\" is supported");
  if (!model["dropout"].empty()) model["dropout"].fail("BPE dropout is not supported: set it to null");
  if (model["byte_fallback"].flag(false)) {
    model["byte_fallback"].fail(
        "only byte-level BPE is supported, as in GPT-2 and Llama 3 (Llama 2's is not)");
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model[name].empty()) model[name].fail("only byte-level BPE without affixes is supported");
  }
}

std::vector<std::string> read_tokens(const TokenizerJson& document) {
  if (document.vocab.empty()) throw UserError("model.vocab: expected an object with at least one token");
  // Ids may have gaps, but a table of them must not be out of proportion to the file.
  const auto most = static_cast<int64_t>(16 * document.vocab.size() + 65536);
  int32_t size = 0;
  for (const TokenizerJson::Entry& entry : document.vocab) {
    if (entry.id >= most)
      throw UserError(
          fmt::format("model.vocab: the id of \"{}\" is {}, far beyond its {} tokens; ids count from 0",
                      document.view(entry.offset, entry.size), entry.id, document.vocab.size()));
    size = std::max(size, entry.id + 1);
  }
  std::vector<std::string> tokens(size);
  std::vector<bool> taken(size);
  for (const TokenizerJson::Entry& entry : document.vocab) {
    const std::string_view spelled = document.view(entry.offset, entry.size);
    if (taken[entry.id])
      throw UserError(fmt::format("model.vocab: \"{}\" has id {}, which is taken", spelled, entry.id));
    taken[entry.id] = true;
    tokens[entry.id] = bytes_of_byte_level(spelled).value_or(std::string(spelled));
  }
  return tokens;
}

std::array<int32_t, 256> read_byte_ids(const Vocabulary& vocabulary, const Field& unknown_token) {
  std::array<int32_t, 256> ids;
  int missing = 0;
  for (int byte = 0; byte < 256; ++byte) {
    ids[byte] = vocabulary.ids.find(byte_level_character(static_cast<unsigned char>(byte)));
    missing += ids[byte] == StringTable::kAbsent;
  }
  if (missing && !unknown_token.empty()) {
    unknown_token.fail(
        fmt::format("unknown tokens are not supported, and {} of 256 bytes have no token", missing));
  }
  if (missing) {
    spdlog::warn(
        "the tokenizer has no token for {} of 256 bytes and drops them from the text, as Hugging Face does",
        missing);
  }
  return ids;
}

std::vector<Merge> read_merges(const TokenizerJson& document, const Vocabulary& vocabulary) {
  std::vector<Merge> merges;
  merges.reserve(document.merges.size());
  for (size_t i = 0; i < document.merges.size(); ++i) {
    const auto& [offset, left, right] = document.merges[i];
    merges.push_back({vocabulary.merge_part(i, document.view(offset, left)),
                      vocabulary.merge_part(i, document.view(offset + left, right)),
                      vocabulary.merge_part(i, document.view(offset, left + right))});
  }
  return merges;
}

// Tokens spelled outside the byte-level alphabet equal no word.
std::vector<int32_t> read_words(const TokenizerJson& document) {
  std::vector<int32_t> words;
  for (const TokenizerJson::Entry& entry : document.vocab) {
    if (bytes_of_byte_level(document.view(entry.offset, entry.size))) words.push_back(entry.id);
  }
  return words;
}

void check_normalizer(const Field& normalizer) {
  const Field steps = normalizer["normalizers"];
  const bool nothing = normalizer.value.is_null() || (steps.value.is_array() && steps.size() == 0);
  if (!nothing) normalizer.fail("normalizers are not supported: only null is");
}

SplitByRegex read_split(const Field& split) {
  const std::string& behavior = split["behavior"].text();
  const bool invert = split["invert"].flag(false);
  const bool matches_only = behavior == "Removed" && invert;
  if (behavior != "Isolated" && !matches_only) {
    split["behavior"].fail("only \"Isolated\", and \"Removed\" with invert, are supported");
  }
  const Field pattern = split["pattern"];
  if (!pattern["Regex"].value.is_string()) pattern.fail("only {\"Regex\": \"...\"} is supported");
  try {
    return {Regex(pattern["Regex"].text()), !matches_only};
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", pattern.place, error.what()));
  }
}

// True once ByteLevel has been read, which must come last: it turns text into the alphabet of bytes.
bool read_pre_tokenizer(const Field& node, std::vector<PreTokenizer::Stage>& stages) {
  const std::string type = node["type"].value.is_string() ? node["type"].text() : "";
  if (type == "Sequence") {
    const Field steps = node["pretokenizers"];
    bool byte_level = false;
    for (size_t i = 0; i < steps.array().size(); ++i) {
      if (byte_level) steps[i].fail("nothing is supported after ByteLevel");
      byte_level = read_pre_tokenizer(steps[i], stages);
    }
    return byte_level;
  }
  if (type == "Split") {
    stages.emplace_back(read_split(node));
    return false;
  }
  if (type == "ByteLevel") {
    if (node["add_prefix_space"].flag(true)) stages.emplace_back(AddPrefixSpace{});
    if (node["use_regex"].flag(true)) stages.emplace_back(SplitByRegex{Regex(kGpt2Pattern)});
    return true;
  }
  node.fail("only ByteLevel, Split and Sequence are supported");
}

// A token that the vocabulary has keeps its id; others are numbered on from the vocabulary's size.
std::vector<AddedToken> read_added_tokens(const Field& list, const Vocabulary& vocabulary) {
  std::vector<AddedToken> added;
  if (list.value.is_null()) return added;
  int32_t next = static_cast<int32_t>(vocabulary.document.vocab.size());
  for (size_t i = 0; i < list.array().size(); ++i) {
    const Field token = list[i];
    AddedToken read;
    read.content = token["content"].text();
    if (read.content.empty()) token["content"].fail("a token needs text");
    for (const AddedToken& other : added) {
      if (other.content == read.content) token["content"].fail("this token was added before");
    }
    const int32_t known = vocabulary.ids.find(read.content);
    read.id = known != StringTable::kAbsent ? known : next++;
    if (token["id"].value != read.id) {
      token["id"].fail(fmt::format("\"{}\" must have id {}: {}", read.content, read.id,
                                   known != StringTable::kAbsent
                                       ? "that is its id in model.vocab"
                                       : "added tokens go on from the end of model.vocab"));
    }
    read.normalized = token["normalized"].flag(!token["special"].flag(false));
    read.lstrip = token["lstrip"].flag(false);
    read.rstrip = token["rstrip"].flag(false);
    read.single_word = token["single_word"].flag(false);
    added.push_back(std::move(read));
  }
  return added;
}

// The token that the template puts before a single text.
std::optional<int32_t> read_template_bos(const Field& processor, int32_t vocab_size) {
  if (processor["type"].value == "Sequence") {
    const Field steps = processor["processors"];
    for (size_t i = 0; i < steps.array().size(); ++i) {
      if (const auto bos = read_template_bos(steps[i], vocab_size)) return bos;
    }
  }
  if (processor["type"].value != "TemplateProcessing") return std::nullopt;
  const Field single = processor["single"];
  if (single.array().size() == 0 || !single[0]["SpecialToken"].value.is_object()) return std::nullopt;
  const Field ids = processor["special_tokens"][single[0]["SpecialToken"]["id"].text()]["ids"];
  if (ids.array().size() != 1 || !ids[0].value.is_number_unsigned() || ids[0].value >= vocab_size) {
    ids.fail(fmt::format("expected one id below {}", vocab_size));
  }
  return ids[0].value.get<int32_t>();
}

BpeDescription describe(const TokenizerJson& document) {
  const Field root{document.rest, ""};
  const Field model = root["model"];
  check_model(model);
  check_normalizer(root["normalizer"]);

  BpeDescription description;
  if (!read_pre_tokenizer(root["pre_tokenizer"], description.stages)) {
    root["pre_tokenizer"].fail("only byte-level BPE is supported: it ends in {\"type\": \"ByteLevel\"}");
  }
  if (!document.has_merges) model["merges"].fail("expected a list");
  const Vocabulary vocabulary(document);
  description.model.tokens = read_tokens(document);
  description.model.byte_ids = read_byte_ids(vocabulary, model["unk_token"]);
  description.model.merges = read_merges(document, vocabulary);
  description.added = read_added_tokens(root["added_tokens"], vocabulary);
  for (const AddedToken& token : description.added) description.model.set_token(token.id, token.content);
  if (model["ignore_merges"].flag(false)) description.model.words = read_words(document);
  description.bos =
      read_template_bos(root["post_processor"], static_cast<int32_t>(description.model.tokens.size()));
  return description;
}

}  // namespace

BpeDescription read_tokenizer_json(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  try {
    BpeDescription description = describe(parse_tokenizer_json(text));
    description.content_hash = content_hash(text);
    return description;
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace titan
