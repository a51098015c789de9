#include "engine/tokenizer/tokenizer_json_parse.h"

#include "engine/io/json.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxId = 1 << 24;
constexpr size_t kMaxDepth = 100;

// Receives the parser's events. Vocab and merges are told apart from the rest by where they stand: directly
// in "model".
class Handler final : public nlohmann::json_sax<json> {
 public:
  explicit Handler(TokenizerJson& out) : out_(out) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool b) override { return value(b); }
  bool number_integer(number_integer_t n) override { return value(n); }
  bool number_float(number_float_t n, const string_t&) override { return value(n); }
  bool binary(binary_t& b) override { return value(json::binary(b)); }

  bool number_unsigned(number_unsigned_t n) override {
    if (section_ != Section::vocab) return value(n);
    if (n >= kMaxId)
      throw UserError(fmt::format("model.vocab: the id of \"{}\" is {}; ids lie below {}", key_, n, kMaxId));
    out_.vocab.push_back({append(key_), key_.size(), static_cast<int32_t>(n)});
    return true;
  }

  bool string(string_t& s) override {
    if (section_ == Section::merges) {
      merge_line(s);
      return true;
    }
    if (section_ != Section::merge_pair) return value(s);
    if (++parts_ > 2) fail_merge();
    TokenizerJson::MergePair& pair = out_.merges.back();
    append(s);
    (parts_ == 1 ? pair.left_size : pair.right_size) = s.size();
    return true;
  }

  bool start_object(size_t) override {
    if (section_ == Section::rest && in_model() && key_ == "vocab") {
      section_ = Section::vocab;
      return true;
    }
    return open(json::object());
  }
  bool end_object() override {
    if (section_ != Section::vocab) return close();
    section_ = Section::rest;
    return true;
  }

  bool start_array(size_t) override {
    if (section_ == Section::rest && in_model() && key_ == "merges") {
      section_ = Section::merges;
      out_.has_merges = true;
      return true;
    }
    if (section_ != Section::merges) return open(json::array());
    section_ = Section::merge_pair;
    parts_ = 0;
    out_.merges.push_back({out_.text.size(), 0, 0});
    return true;
  }
  bool end_array() override {
    if (section_ == Section::merge_pair) {
      if (parts_ != 2) fail_merge();
      section_ = Section::merges;
      return true;
    }
    if (section_ != Section::merges) return close();
    section_ = Section::rest;
    return true;
  }

  bool key(string_t& k) override {
    key_.swap(k);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const json::exception& error) override {
    throw UserError(fmt::format("not JSON at byte {}: {}", position, problem_of(error)));
  }

 private:
  enum class Section { rest, vocab, merges, merge_pair };

  bool in_model() const { return open_.size() == 2 && model_ && open_.back() == model_; }

  size_t append(std::string_view s) {
    out_.text += s;
    return out_.text.size() - s.size();
  }

  // "left right": the older form. "#version" lines are comments.
  void merge_line(std::string_view line) {
    if (line.starts_with("#version")) return;
    const size_t space = line.find(' ');
    if (space == line.npos || line.find(' ', space + 1) != line.npos) {
      throw UserError(
          fmt::format("model.merges: \"{}\" is not two tokens with one space between them", line));
    }
    out_.merges.push_back({append(line.substr(0, space)), space, line.size() - space - 1});
    append(line.substr(space + 1));
  }

  [[noreturn]] void fail_merge() const {
    throw UserError(fmt::format("model.merges: entry {} is not a pair of strings", out_.merges.size() - 1));
  }

  json* add(json v) {
    if (section_ == Section::vocab) {
      throw UserError(fmt::format("model.vocab: the id of \"{}\" is {}, not a whole number", key_, v.dump()));
    }
    if (section_ == Section::merge_pair) fail_merge();
    if (section_ == Section::merges)
      throw UserError(fmt::format("model.merges: {} is not a merge", v.dump()));
    if (open_.empty()) {
      out_.rest = std::move(v);
      return &out_.rest;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(v));
      return &parent.back();
    }
    json& child = parent[key_] = std::move(v);
    if (open_.size() == 1 && key_ == "model") model_ = &child;
    return &child;
  }
  bool value(json v) {
    add(std::move(v));
    return true;
  }
  bool open(json v) {
    if (open_.size() == kMaxDepth) throw UserError(fmt::format("nested deeper than {} levels", kMaxDepth));
    open_.push_back(add(std::move(v)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  TokenizerJson& out_;
  Section section_ = Section::rest;
  int parts_ = 0;  // of the current merge pair
  std::string key_;
  std::vector<json*> open_;  // the containers around the current place
  json* model_ = nullptr;
};

}  // namespace

TokenizerJson parse_tokenizer_json(std::string_view text) {
  TokenizerJson document;
  document.text.reserve(text.size() / 2);
  Handler handler(document);
  json::sax_parse(text, &handler);
  return document;
}

}  // namespace titan
