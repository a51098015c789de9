#include "engine/tokenizer/pre_tokenizer.h"

#include <string>

#include "engine/tokenizer/utf8.h"

namespace titan {

void PreTokenizer::run(size_t stage, std::string_view text, RegexScratch& scratch, const Sink& word) const {
  if (stage == stages_.size()) return word(text);
  const auto next = [&](std::string_view piece) { run(stage + 1, piece, scratch, word); };
  if (std::holds_alternative<AddPrefixSpace>(stages_[stage])) {
    return text.starts_with(' ') ? next(text) : next(' ' + std::string(text));
  }
  const auto& [regex, keep_gaps] = std::get<SplitByRegex>(stages_[stage]);
  size_t done = 0;
  for (size_t from = 0; from < text.size();) {
    const std::optional<Regex::Match> match = regex.find(text, from, scratch);
    if (!match) break;
    if (keep_gaps && done < match->begin) next(text.substr(done, match->begin - done));
    if (match->begin < match->end) next(text.substr(match->begin, match->end - match->begin));
    done = match->end;
    from = match->begin < match->end ? match->end : match->end + utf8_char_at(text, match->end).length;
  }
  if (keep_gaps && done < text.size()) next(text.substr(done));
}

}  // namespace titan
