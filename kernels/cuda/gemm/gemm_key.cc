#include "kernels/cuda/gemm/gemm_key.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <stdexcept>

namespace titan::cuda {
namespace {

/// f(name, field) for each field, in the order of the text.
template <class Key, class F>
void for_each_field(Key& key, F f) {
  f("m", key.m), f("n", key.n), f("k", key.k);
  f("a", key.a), f("b", key.b), f("c", key.c);
  f("transpose_a", key.transpose_a), f("transpose_b", key.transpose_b);
  f("a_pitch", key.a_pitch), f("b_pitch", key.b_pitch), f("c_pitch", key.c_pitch);
  f("a_alignment", key.a_alignment), f("b_alignment", key.b_alignment), f("c_alignment", key.c_alignment);
  f("adds", key.adds), f("scales", key.scales), f("fast_accumulation", key.fast_accumulation);
  f("workspace_bytes", key.workspace_bytes), f("multiprocessors", key.multiprocessors);
}

std::string text_of(std::int64_t x) { return std::to_string(x); }
std::string text_of(bool x) { return x ? "1" : "0"; }
std::string text_of(DType x) { return to_string(x); }
std::string text_of(GemmScales x) {
  constexpr const char* kNames[] = {"none", "tensor", "rows"};
  return kNames[static_cast<int>(x)];
}

bool parse(std::string_view text, std::int64_t& x) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  return error == std::errc() && end == text.data() + text.size();
}
bool parse(std::string_view text, bool& x) {
  x = text == "1";
  return x || text == "0";
}
/// One of the values up to `last`, by its text.
template <class T>
bool parse_name(std::string_view text, T last, T& x) {
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (text_of(x = static_cast<T>(i)) == text) return true;
  return false;
}
bool parse(std::string_view text, GemmScales& x) { return parse_name(text, GemmScales::rows, x); }
bool parse(std::string_view text, DType& x) { return parse_name(text, DType::f8e5m2, x); }

}  // namespace

std::int64_t alignment_of(const void* p) {
  constexpr std::uintptr_t kMost = 16;
  const auto address = reinterpret_cast<std::uintptr_t>(p) | kMost;
  return static_cast<std::int64_t>(address & (~address + 1));
}

std::string to_text(const GemmKey& key) {
  std::string text;
  for_each_field(key, [&](const char*, const auto& field) {
    if (!text.empty()) text += ' ';
    text += text_of(field);
  });
  return text;
}

std::string key_columns() {
  std::string names;
  const GemmKey key;
  for_each_field(key, [&](const char* name, const auto&) { (names += names.empty() ? "" : " ") += name; });
  return names;
}

GemmKey parse_gemm_key(std::string_view text) {
  std::istringstream words{std::string(text)};
  GemmKey key;
  for_each_field(key, [&](const char* name, auto& field) {
    std::string word;
    if (!(words >> word)) throw std::invalid_argument(std::string(name) + " is missing");
    if (!parse(word, field)) throw std::invalid_argument(std::string(name) + " is '" + word + "'");
  });
  if (std::string word; words >> word) throw std::invalid_argument("'" + word + "' is too much");
  return key;
}

}  // namespace titan::cuda
