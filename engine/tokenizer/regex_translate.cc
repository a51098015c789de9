// From the dialect of tokenizer files to PCRE2's. What must change: PCRE2 10.42 knows Unicode 14, so the
// characters that came later are added to each class; \s, \d and \w are spelled out because PCRE2 draws them
// differently. What the engines read differently, or what this translation does not follow, is an error
// rather than other ids.
#include <algorithm>
#include <cctype>
#include <string>

#include "engine/tokenizer/regex.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

struct Addition {
  uint32_t first, last;
  std::string_view category;
};
constexpr Addition kAdditions[] = {
#include "engine/tokenizer/unicode_16_additions.inc"
};

constexpr std::string_view kCategories[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",
                                            "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po",
                                            "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp"};
constexpr std::string_view kBinaryProperties[] = {"White_Space", "Alphabetic", "Join_Control"};
constexpr std::string_view kGroups[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};

template <class Range>
bool contains(const Range& range, std::string_view value) {
  return std::find(std::begin(range), std::end(range), value) != std::end(range);
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    if (in_.starts_with("(?i)")) copy(4);
    while (at_ < in_.size()) {
      switch (in_[at_]) {
        case '\\':
          escape(false);
          break;
        case '[':
          character_class();
          break;
        case '(':
          group();
          break;
        case '{':
          repeat();
          break;
        case '^':
        case '$':
          fail(in_.substr(at_, 1));
        default:
          copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::string_view construct) const {
    throw UserError(
        fmt::format("regex \"{}\": \"{}\" at byte {} is not supported: tokenizers that split by "
                    "character classes, groups, lookarounds and repeats are",
                    in_, construct, at_));
  }

  void copy(size_t count) {
    out_ += in_.substr(at_, count);
    at_ += count;
  }

  void group() {
    if (!in_.substr(at_).starts_with("(?")) return copy(1);
    for (const std::string_view opening : kGroups) {
      if (in_.substr(at_).starts_with(opening)) return copy(opening.size());
    }
    fail(in_.substr(at_, 4));
  }

  // {n}, {n,} or {n,m}. A + behind it is possessive in PCRE2 but a second repeat in Oniguruma.
  void repeat() {
    const size_t end = in_.find('}', at_);
    const std::string_view text = in_.substr(at_, end == in_.npos ? in_.npos : end - at_ + 1);
    const bool digits = text.size() >= 3 && text.find_first_not_of("0123456789,", 1) == text.size() - 1;
    if (end == in_.npos || !digits || text[1] == ',' || in_.substr(end + 1).starts_with('+')) fail(text);
    copy(text.size());
  }

  void character_class() {
    copy(1);
    if (peek() == '^') copy(1);
    if (peek() == ']') fail("[]");
    while (peek() != ']') {
      if (at_ >= in_.size()) fail("[");
      if (in_.substr(at_).starts_with("&&")) fail("&&");
      if (peek() == '[') fail("[ inside a class");
      if (peek() == '\\') {
        escape(true);
      } else {
        copy(1);
      }
    }
    copy(1);
  }

  void escape(bool in_class) {
    const size_t start = at_;
    const char kind = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
    const std::string_view shown = in_.substr(start, 2);
    switch (kind) {
      case 'p':
      case 'P': {
        const size_t end = in_.find('}', at_);
        if (end == in_.npos || in_.substr(at_ + 2, 1) != "{") fail(shown);
        std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
        bool negated = kind == 'P';
        if (name.starts_with('^')) {
          negated = !negated;
          name.remove_prefix(1);
        }
        if (!contains(kCategories, name) && !contains(kBinaryProperties, name))
          fail(in_.substr(at_, end - at_ + 1));
        set(property(name), negated, in_class);
        at_ = end + 1;
        return;
      }
      case 's':
      case 'S':
        set(property("White_Space"), kind == 'S', in_class);
        break;
      case 'd':
      case 'D':
        set(property("Nd"), kind == 'D', in_class);
        break;
      case 'w':
      case 'W':
        set(property("L") + property("M") + property("N") + property("Pc"), kind == 'W', in_class);
        break;
      case 'r':
      case 'n':
      case 't':
      case 'f':
        return copy(2);
      case 'x':
        if (in_.substr(at_ + 2, 1) != "{") fail(shown);
        return copy(2);  // a wrong number is PCRE2's to report
      case 'u': {
        const std::string_view hex = in_.substr(at_ + 2, 4);
        if (hex.size() < 4 || hex.find_first_not_of("0123456789abcdefABCDEF") != hex.npos) fail(shown);
        out_ += fmt::format("\\x{{{}}}", hex);
        at_ += 6;
        return;
      }
      default:
        if (kind <= ' ' || kind > '~' || std::isalnum(static_cast<unsigned char>(kind))) fail(shown);
        return copy(2);
    }
    at_ += 2;
  }

  // Members of a property, as they stand inside a class.
  static std::string property(std::string_view name) {
    std::string members = fmt::format("\\p{{{}}}", name);
    for (const Addition& a : kAdditions) {
      if (a.category.starts_with(name)) members += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", a.first, a.last);
    }
    return members;
  }

  void set(const std::string& members, bool negated, bool in_class) {
    if (in_class && negated) fail(in_.substr(at_, 2));
    out_ += in_class ? members : fmt::format("[{}{}]", negated ? "^" : "", members);
  }

  char peek() const { return at_ < in_.size() ? in_[at_] : '\0'; }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string translate_regex(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace titan
