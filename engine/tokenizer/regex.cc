#include "engine/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

#include "kernels/base/error.h"

namespace titan {
namespace {

constexpr size_t kJitStackStart = 32 << 10;
constexpr size_t kJitStackLimit = 64 << 20;
// Steps of one match: linear in the text is any pattern's right, exponential is none's.
constexpr uint64_t kMatchSteps = 10'000'000, kMatchStepsPerByte = 100;

std::string error_text(int code) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

template <class T>
T* not_null(T* pointer) {
  if (!pointer) throw std::bad_alloc();
  return pointer;
}

}  // namespace

struct RegexScratch::Handles {
  pcre2_match_data* data = not_null(pcre2_match_data_create(1, nullptr));
  pcre2_match_context* context = not_null(pcre2_match_context_create(nullptr));
  pcre2_jit_stack* stack = not_null(pcre2_jit_stack_create(kJitStackStart, kJitStackLimit, nullptr));

  Handles() { pcre2_jit_stack_assign(context, nullptr, stack); }
  ~Handles() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
};

RegexScratch::RegexScratch() : handles_(std::make_unique<Handles>()) {}
RegexScratch::~RegexScratch() = default;
RegexScratch::RegexScratch(RegexScratch&&) noexcept = default;

void Regex::FreeCode::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

Regex::Regex(std::string_view pattern) {
  const std::string translated = translate_regex(pattern);
  int error = 0;
  size_t offset = 0;
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      not_null(pcre2_compile_context_create(nullptr)), pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                            PCRE2_UTF | PCRE2_UCP, &error, &offset, context.get()));
  if (!code_) throw UserError(fmt::format("regex \"{}\": {}", pattern, error_text(error)));
  // Where PCRE2 has no JIT, its interpreter matches the same.
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

std::optional<Regex::Match> Regex::find(std::string_view text, size_t from, RegexScratch& scratch) const {
  RegexScratch::Handles& handles = *scratch.handles_;
  const uint64_t limit = kMatchSteps + kMatchStepsPerByte * text.size();
  pcre2_set_match_limit(handles.context, static_cast<uint32_t>(std::min<uint64_t>(limit, UINT32_MAX)));
  const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                PCRE2_NO_UTF_CHECK, handles.data, handles.context);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0) {
    throw UserError(
        fmt::format("the tokenizer's regex gave up at byte {} of a text of {} bytes: {}; "
                    "split the text into smaller documents",
                    from, text.size(), error_text(found)));
  }
  const size_t* span = pcre2_get_ovector_pointer(handles.data);
  return Match{span[0], span[1]};
}

}  // namespace titan
