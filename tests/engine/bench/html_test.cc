#include "engine/bench/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

using namespace titan;
using Catch::Contains;

namespace {

/// Every tag is closed in its turn, and no raw & or quote breaks an attribute. Empty when well-formed.
std::string malformed(const std::string& html) {
  std::vector<std::string> open;
  std::size_t at = html.find('\n');  // after the doctype
  while ((at = html.find('<', at)) != std::string::npos) {
    const std::size_t end = html.find('>', at);
    if (end == std::string::npos) return "an open <";
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name =
        tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /\n", 1) - (tag[0] == '/' ? 1 : 0));
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return fmt::format("quotes in {}", tag);
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return fmt::format("{} closes nothing", tag);
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end;
  }
  for (std::size_t and_at = 0; (and_at = html.find('&', and_at)) != std::string::npos; ++and_at) {
    const std::string entity = html.substr(and_at, 6);
    if (!entity.starts_with("&amp;") && !entity.starts_with("&lt;") && !entity.starts_with("&gt;") &&
        !entity.starts_with("&quot;"))
      return fmt::format("a raw & at {}", entity);
  }
  return open.empty() ? "" : fmt::format("{} is not closed", open.back());
}

int count_of(const std::string& text, const std::string& what) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++count;
  return count;
}

Trial trial(std::vector<std::string> values, double tps) {
  Trial t;
  t.values = std::move(values);
  t.step_seconds = spread({0.9 / tps, 1 / tps, 1.2 / tps});
  t.tokens_per_second = tps;
  t.speed_of_light = 12.5;
  t.predicted_bytes = static_cast<std::int64_t>(tps) << 20;
  t.peak_resident_bytes = static_cast<std::int64_t>(tps) << 21;
  return t;
}

BenchReport report(std::vector<std::string> keys, std::vector<Trial> trials) {
  BenchReport r;
  r.recipe = "a <b> & \"c\".toml";
  r.command = "titan bench 'x & y'";
  r.machine = "processor  <unknown>\n";
  r.recipe_toml = "[job]\ndescription = \"<&>\"\n";
  r.keys = std::move(keys);
  r.trials = std::move(trials);
  return r;
}

}  // namespace

TEST_CASE("a swept number gives lines, one for each combination of the others, and every number is there") {
  Trial failed = trial({"4", "full"}, 1);
  failed.status = Trial::Status::out_of_memory;
  failed.message = "needs <more> & more";
  failed.peak_resident_bytes = 0;
  const std::string html = bench_html(
      report({"training.local_batch_size", "activation_checkpoint.mode"},
             {trial({"1", "none"}, 101), trial({"1", "full"}, 102), trial({"4", "none"}, 203), failed}));
  CHECK(malformed(html) == "");
  CHECK(count_of(html, "<svg") == 2);
  CHECK(count_of(html, "class=\"legend\"") == 2);
  CHECK(count_of(html, "<circle") == 3 + 3 + 4);  // throughput, peak memory, planned memory
  for (const char* number : {"101", "102", "203", "101.0 MiB", "406.0 MiB", "12.5 %"})
    CHECK_THAT(html, Contains(number));
  CHECK_THAT(html, Contains("mode = none") && Contains("mode = full") && Contains("out of memory") &&
                       Contains("needs &lt;more&gt; &amp; more") && Contains("3 of 4"));
  for (const char* network : {"src=", "href=", "@import", "url(", "<script"})
    CHECK_THAT(html, !Contains(network));
}

TEST_CASE("words, single points and too many lines give bars") {
  for (const BenchReport& r :
       {report({"activation_checkpoint.mode"}, {trial({"none"}, 10), trial({"full"}, 20)}),
        report({"training.local_batch_size"}, {trial({"8"}, 10), trial({"9"}, 0)}),
        report({}, {trial({}, 10)})}) {
    BenchReport shown = r;
    if (r.keys == std::vector<std::string>{"training.local_batch_size"}) shown.trials.pop_back();
    const std::string html = bench_html(shown);
    CHECK(malformed(html) == "");
    CHECK(count_of(html, "<circle") == 0);
    CHECK(count_of(html, "<rect") == 3 * static_cast<int>(shown.trials.size()));
  }
  BenchReport many = report({"a.n", "a.word"}, {});
  for (const char* n : {"1", "2"})
    for (int i = 0; i < 9; ++i) many.trials.push_back(trial({n, fmt::format("w{}", i)}, 10 + i));
  CHECK(count_of(bench_html(many), "<rect") == 3 * 18);
}

TEST_CASE("numbers are ordered as numbers") {
  const std::string html = bench_html(report({"a.n"}, {trial({"16"}, 3), trial({"2"}, 1), trial({"8"}, 2)}));
  const auto at = [&](const char* label) {
    return html.find(fmt::format("class=\"tick\">{}</text>", label));
  };
  CHECK(at("2") < at("8"));
  CHECK(at("8") < at("16"));
}

TEST_CASE("reports of nothing, and of nothing that ran, are pages too") {
  const std::string empty = bench_html(report({"a.n"}, {}));
  CHECK(malformed(empty) == "");
  CHECK_THAT(empty, Contains("No combination was measured"));
  Trial failed = trial({"1"}, 1), other = trial({"2"}, 1);
  for (Trial* t : {&failed, &other}) {
    t->status = Trial::Status::failed;
    t->predicted_bytes = t->peak_resident_bytes = 0;
  }
  const std::string html = bench_html(report({"a.n"}, {failed, other}));
  CHECK(malformed(html) == "");
  CHECK_THAT(html, Contains("0 of 2") && !Contains("nan") && !Contains("inf"));
}
