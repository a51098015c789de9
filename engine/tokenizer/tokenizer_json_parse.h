// tokenizer.json as text, taken apart. The vocabulary and the merges (400,000 strings for Llama 3) go
// straight into flat tables; a JSON tree holds only the small rest.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

struct TokenizerJson {
  struct Entry {
    size_t offset, size;  // of the spelled token in `text`
    int32_t id;
  };
  struct MergePair {
    size_t offset, left_size, right_size;  // left and right lie side by side in `text`
  };
  std::string text;
  std::vector<Entry> vocab;
  std::vector<MergePair> merges;
  bool has_merges = false;  // a list of them, be it empty
  nlohmann::json rest;      // without model.vocab and model.merges

  std::string_view view(size_t offset, size_t size) const {
    return std::string_view(text).substr(offset, size);
  }
};

/// Throws UserError (without the file's name) where the text is not JSON, or vocab and merges have not the
/// form they need.
TokenizerJson parse_tokenizer_json(std::string_view text);

}  // namespace titan
