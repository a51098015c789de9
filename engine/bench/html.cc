#include "engine/bench/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "engine/bench/chart.h"

namespace titan {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --page: #f6f7f9; --card: #ffffff; --ink: #16191d; --soft: #5b6470; --grid: #e6e9ed;
  --axis: #aab2bc; --bad: #b3261e; --good: #1c6e42;
  --c0: #2468c8; --c1: #d9571c; --c2: #13906b; --c3: #8a3fb0; --c4: #b08800; --c5: #c2307a; --c6: #3f7f97; --c7: #6b6f76; }
@media (prefers-color-scheme: dark) {
  :root { --page: #111418; --card: #1a1f25; --ink: #e9edf2; --soft: #9aa5b1; --grid: #2a313a; --axis: #55606c;
    --bad: #ff8a80; --good: #6fd39b;
    --c0: #6ea8ff; --c1: #ff9060; --c2: #4fcfa4; --c3: #cf90f0; --c4: #e6c14a; --c5: #ff82b8; --c6: #7cc6dd; --c7: #aeb4bc; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 0 0 10px; }
.sub { color: var(--soft); margin: 0 0 24px; }
section { background: var(--card); border: 1px solid var(--grid); border-radius: 10px; padding: 18px 20px; margin: 0 0 18px; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 0 0 18px; }
.tile { flex: 1 1 190px; background: var(--card); border: 1px solid var(--grid); border-radius: 10px; padding: 12px 16px; }
.tile b { display: block; font-size: 22px; line-height: 1.3; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; overflow-wrap: anywhere; }
svg { display: block; width: 100%; min-width: 620px; height: auto; } svg text { font-family: inherit; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 8px; padding: 0; list-style: none; font-size: 13px; }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px; vertical-align: -1px; background: currentColor; }
.hint { color: var(--soft); font-size: 13px; margin: 8px 0 0; }
.tick { font-size: 12px; fill: var(--soft); font-variant-numeric: tabular-nums; } .label { font-size: 13px; fill: var(--ink); }
.grid { stroke: var(--grid); } .axis { stroke: var(--axis); }
.line { fill: none; stroke: currentColor; stroke-width: 2; } .dashed { stroke-dasharray: 5 4; stroke-width: 1.5; }
.whisker { stroke: currentColor; stroke-width: 5; opacity: .35; } .error { stroke: var(--ink); stroke-width: 1.5; }
.point { fill: currentColor; stroke: var(--card); stroke-width: 1.5; } .hollow { fill: var(--card); stroke: currentColor; }
.bar { fill: currentColor; } .pale { opacity: .45; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); } .c3 { color: var(--c3); }
.c4 { color: var(--c4); } .c5 { color: var(--c5); } .c6 { color: var(--c6); } .c7 { color: var(--c7); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 8px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--grid); }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; white-space: normal; } th.text, td.text { text-align: left; }
th .section { display: block; font-weight: 400; }
tr.best td { font-weight: 600; } .ok { color: var(--good); } .bad { color: var(--bad); }
td.message { white-space: normal; text-align: left; overflow-wrap: anywhere; color: var(--soft); }
pre { margin: 0; font: 12.5px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
summary { cursor: pointer; font-weight: 600; } details pre { margin-top: 10px; }
)";

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "training.local_batch_size" as "local_batch_size".
std::string short_name(const std::string& key) { return key.substr(key.rfind('.') + 1); }

/// The values of all keys but one.
std::string name_of(const BenchReport& report, const Trial& trial, std::size_t without) {
  std::string name;
  for (std::size_t k = 0; k < report.keys.size(); ++k)
    if (k != without)
      name += fmt::format("{}{} = {}", name.empty() ? "" : ", ", short_name(report.keys[k]), trial.values[k]);
  return name;
}

/// How the trials lie in a chart: which label and which series each belongs to.
struct Layout {
  bool lines = false;
  std::string x_title;
  std::vector<std::string> labels, series;
  std::vector<std::size_t> label_of, series_of;  ///< by trial
};

std::size_t index_in(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  names.push_back(name);
  return names.size() - 1;
}

std::optional<Layout> as_lines(const BenchReport& report, std::size_t key) {
  std::vector<std::pair<double, std::string>> values;
  for (const Trial& t : report.trials) {
    const auto number = number_of(t.values[key]);
    if (!number) return std::nullopt;
    values.emplace_back(*number, t.values[key]);
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.size() < 2) return std::nullopt;
  Layout layout{.lines = true,
                .x_title = report.keys[key],
                .labels = {},
                .series = {},
                .label_of = {},
                .series_of = {}};
  for (const auto& [number, text] : values) layout.labels.push_back(text);
  for (const Trial& t : report.trials) {
    layout.label_of.push_back(index_in(layout.labels, t.values[key]));
    layout.series_of.push_back(index_in(layout.series, name_of(report, t, key)));
  }
  if (layout.series.size() > kChartColors) return std::nullopt;
  return layout;
}

Layout layout_of(const BenchReport& report) {
  for (std::size_t key = 0; key < report.keys.size(); ++key)
    if (auto layout = as_lines(report, key)) return *layout;
  Layout layout;
  layout.series.emplace_back();
  for (std::size_t i = 0; i < report.trials.size(); ++i) {
    const std::string name = name_of(report, report.trials[i], report.keys.size());
    layout.labels.push_back(name.empty() ? "the recipe" : name);
    layout.label_of.push_back(i);
    layout.series_of.push_back(0);
  }
  return layout;
}

std::string name_with_label(const Layout& layout, std::size_t trial) {
  if (!layout.lines) return layout.labels[layout.label_of[trial]];
  const std::string& series = layout.series[layout.series_of[trial]];
  return fmt::format("{} = {}{}{}", short_name(layout.x_title), layout.labels[layout.label_of[trial]],
                     series.empty() ? "" : ", ", series);
}

template <class PointOf>
void add_series(Chart& chart, const BenchReport& report, const Layout& layout, bool secondary,
                PointOf point_of) {
  const std::size_t first = chart.series.size();
  for (std::size_t s = 0; s < layout.series.size(); ++s) {
    ChartSeries series{
        .name = layout.series[s], .color = s, .secondary = secondary, .points = {}, .gaps = {}};
    series.points.resize(layout.labels.size());
    series.gaps.resize(layout.labels.size());
    chart.series.push_back(std::move(series));
  }
  for (std::size_t i = 0; i < report.trials.size(); ++i) {
    const Trial& t = report.trials[i];
    ChartSeries& series = chart.series[first + layout.series_of[i]];
    const std::size_t at = layout.label_of[i];
    if (std::optional<ChartPoint> p = point_of(t)) {
      p->tip = fmt::format("{}: {}", name_with_label(layout, i), p->tip);
      series.points[at] = std::move(p);
    } else if (!secondary && t.status != Trial::Status::ok) {
      series.gaps[at] = layout.lines ? fmt::format("{}: {}", name_with_label(layout, i), to_string(t.status))
                                     : to_string(t.status);
    }
  }
}

std::string legend(const Layout& layout) {
  if (!layout.lines || layout.series.size() < 2) return "";
  std::string html = "<ul class=\"legend\">";
  for (std::size_t s = 0; s < layout.series.size(); ++s)
    html += fmt::format("<li><i class=\"c{}\"></i>{}</li>", s, html_escaped(layout.series[s]));
  return html + "</ul>\n";
}

std::string chart_section(const Chart& chart, const Layout& layout, const std::string& hint) {
  return fmt::format(
      "<section><h2>{}</h2>\n{}<div class=\"scroll\">{}</div><p class=\"hint\">{}</p></section>\n",
      html_escaped(chart.title), legend(layout), layout.lines ? line_chart(chart) : bar_chart(chart),
      html_escaped(hint));
}

std::string throughput_section(const BenchReport& report, const Layout& layout) {
  Chart chart{.title = "Throughput",
              .unit = "tokens/s",
              .x_title = layout.x_title,
              .labels = layout.labels,
              .series = {}};
  add_series(chart, report, layout, false, [](const Trial& t) -> std::optional<ChartPoint> {
    if (t.status != Trial::Status::ok) return std::nullopt;
    const double tokens = t.tokens_per_second * t.step_seconds.median;  // of one step
    return ChartPoint{
        .value = t.tokens_per_second,
        .low = tokens / t.step_seconds.three_quarters,
        .high = tokens / t.step_seconds.quarter,
        .tip = fmt::format("{} tokens/s, step {} (fastest {}, slowest {})", chart_number(t.tokens_per_second),
                           seconds_text(t.step_seconds.median), seconds_text(t.step_seconds.min),
                           seconds_text(t.step_seconds.max))};
  });
  const bool lines = layout.lines;
  return chart_section(
      chart, layout,
      fmt::format("Higher is better. {}: the median step; {}: the middle half of the steps.{}",
                  lines ? "Points" : "Bars", lines ? "shades" : "thin lines",
                  lines ? " A cross: it did not run." : ""));
}

constexpr std::int64_t kMostBeyond = 3;

std::string memory_section(const BenchReport& report, const Layout& layout) {
  // Plans far beyond what ran would flatten everything else; the table has them.
  const auto peak = [](const Trial& t) { return t.status == Trial::Status::ok ? t.peak_resident_bytes : 0; };
  std::int64_t ran = 0, most = 0;
  for (const Trial& t : report.trials) ran = std::max(ran, peak(t));
  const auto planned = [&](const Trial& t) {
    return ran > 0 && t.predicted_bytes > kMostBeyond * ran ? 0 : t.predicted_bytes;
  };
  for (const Trial& t : report.trials) most = std::max({most, planned(t), peak(t)});
  if (most == 0) return "";
  const bool gib = most >= std::int64_t{1} << 30;
  const double unit = gib ? 1 << 30 : 1 << 20;
  Chart chart{.title = "Memory",
              .unit = gib ? "GiB" : "MiB",
              .x_title = layout.x_title,
              .labels = layout.labels,
              .series = {}};
  const auto point = [&](std::int64_t bytes, const char* what) -> std::optional<ChartPoint> {
    if (bytes == 0) return std::nullopt;
    const double value = static_cast<double>(bytes) / unit;
    return ChartPoint{value, value, value, fmt::format("{} {} ({} B)", what, memory_text(bytes), bytes)};
  };
  add_series(chart, report, layout, false,
             [&](const Trial& t) { return point(peak(t), "peak of the process"); });
  add_series(chart, report, layout, true, [&](const Trial& t) { return point(planned(t), "planned"); });
  return chart_section(chart, layout,
                       layout.lines
                           ? "Solid: the largest resident memory of the process. Dashed: what the plan "
                             "gives the arena; also where nothing ran, unless far beyond the others."
                           : "Full bars: the largest resident memory of the process. Pale bars: what the "
                             "plan gives the arena; also where nothing ran, unless far beyond the others.");
}

const Trial* fastest(const BenchReport& report) {
  const Trial* best = nullptr;
  for (const Trial& t : report.trials)
    if (t.status == Trial::Status::ok && (best == nullptr || t.tokens_per_second > best->tokens_per_second))
      best = &t;
  return best;
}

std::string tile(const std::string& value, const std::string& what) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", html_escaped(value),
                     html_escaped(what));
}

std::string tiles(const BenchReport& report) {
  const auto ran = std::count_if(report.trials.begin(), report.trials.end(),
                                 [](const Trial& t) { return t.status == Trial::Status::ok; });
  std::string html = "<div class=\"tiles\">\n";
  if (const Trial* best = fastest(report)) {
    const std::string name = name_of(report, *best, report.keys.size());
    html += tile(fmt::format("{} tokens/s", chart_number(best->tokens_per_second)),
                 name.empty() ? "at the median step" : "fastest: " + name);
    html += tile(seconds_text(best->step_seconds.median),
                 fmt::format("its median step, {} to {}", seconds_text(best->step_seconds.min),
                             seconds_text(best->step_seconds.max)));
    if (best->speed_of_light)
      html += tile(fmt::format("{:.1f} %", *best->speed_of_light),
                   "its speed of light: what its matrix products take at their measured peak, of the step");
    html += tile(memory_text(best->peak_resident_bytes), "its peak memory");
  }
  html += tile(fmt::format("{} of {}", ran, report.trials.size()),
               report.trials.size() == 1 ? "combination ran" : "combinations ran");
  return html + "</div>\n";
}

std::string head_cell(const std::string& name, bool text) {
  const std::size_t dot = name.rfind('.');
  const std::string label =
      text && dot != std::string::npos
          ? fmt::format("<span class=\"section\">{}.</span>{}", html_escaped(name.substr(0, dot)),
                        html_escaped(name.substr(dot + 1)))
          : html_escaped(name);
  return fmt::format("<th{}>{}</th>", text ? " class=\"text\"" : "", label);
}

std::string table_section(const BenchReport& report) {
  const std::vector<std::string> head = table_head(report);
  const std::size_t text = text_columns(report);
  std::string html = "<section><h2>All combinations</h2>\n<div class=\"scroll\"><table>\n<thead><tr>";
  for (std::size_t i = 0; i < head.size(); ++i) html += head_cell(head[i], i < text);
  html += "</tr></thead>\n<tbody>\n";
  const Trial* best = report.trials.size() > 1 ? fastest(report) : nullptr;
  for (const Trial& t : report.trials) {
    const std::vector<std::string> row = table_row(t);
    const bool ok = t.status == Trial::Status::ok;
    html += &t == best ? "<tr class=\"best\">" : "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const char* classes = i + 1 == text ? (ok ? " class=\"text ok\"" : " class=\"text bad\"")
                                          : (i < text ? " class=\"text\"" : "");
      html += fmt::format("<td{}>{}</td>", classes, html_escaped(row[i]));
    }
    html += "</tr>\n";
    if (!t.message.empty())
      html += fmt::format("<tr><td class=\"message\" colspan=\"{}\">{}</td></tr>\n", row.size(),
                          html_escaped(t.message));
  }
  html += "</tbody></table></div>\n";
  for (const std::string& note : report.notes)
    html += fmt::format("<p class=\"hint\">{}</p>\n", html_escaped(note));
  return html + "</section>\n";
}

std::string pre_section(const std::string& title, const std::string& text, bool folded) {
  if (text.empty()) return "";
  if (folded)
    return fmt::format("<section><details><summary>{}</summary><pre>{}</pre></details></section>\n",
                       html_escaped(title), html_escaped(text));
  return fmt::format("<section><h2>{}</h2><pre>{}</pre></section>\n", html_escaped(title),
                     html_escaped(text));
}

}  // namespace

std::string bench_html(const BenchReport& report) {
  const std::string title = "titan bench " + report.recipe;
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"/>\n";
  html += fmt::format("<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n", html_escaped(title),
                      kStyle);
  html += fmt::format(
      "<h1>{}</h1>\n<p class=\"sub\">{} measured steps after {} of warm-up{}; every combination in "
      "its own process</p>\n",
      html_escaped(title), report.steps, report.warmup,
      report.repeat > 1 ? fmt::format(", {} times", report.repeat) : "");
  html += tiles(report);
  if (!report.trials.empty()) {
    const Layout layout = layout_of(report);
    html += throughput_section(report, layout) + memory_section(report, layout) + table_section(report);
  } else {
    html += "<section><p>No combination was measured.</p></section>\n";
  }
  html += pre_section("Machine", report.machine, false) + pre_section("Command", report.command, false) +
          pre_section("Recipe, without the swept values", report.recipe_toml, true);
  return html + "</main>\n</body>\n</html>\n";
}

}  // namespace titan
