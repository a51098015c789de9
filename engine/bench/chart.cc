#include "engine/bench/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace titan {
namespace {

constexpr double kWidth = 960;

double largest(const Chart& chart) {
  double most = 0;
  for (const ChartSeries& s : chart.series)
    for (const auto& p : s.points)
      if (p) most = std::max({most, p->value, p->high});
  return most;
}

std::string begin_svg(const Chart& chart, double height) {
  return fmt::format(
      "<svg viewBox=\"0 0 {:g} {:g}\" role=\"img\" aria-label=\"{}\" xmlns=\"http://www.w3.org/2000/svg\">\n",
      kWidth, height, html_escaped(chart.title));
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view classes,
                    std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", x, y,
                     anchor, classes, html_escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, std::string_view classes) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1,
                     x2, y2, classes);
}

/// A path through the points that are there; a gap lifts the pen.
template <class X, class Y>
std::string path(const ChartSeries& s, X x, Y y) {
  std::string d;
  bool down = false;
  for (std::size_t i = 0; i < s.points.size(); ++i) {
    if (s.points[i]) d += fmt::format("{}{:.1f} {:.1f}", down ? " L" : " M", x(i), y(s.points[i]->value));
    down = s.points[i].has_value();
  }
  if (d.empty()) return "";
  return fmt::format("<path d=\"{}\" class=\"line c{}{}\"/>\n", d.substr(1), s.color,
                     s.secondary ? " dashed" : "");
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::vector<double> round_ticks(double most) {
  if (!(most > 0)) return {0, 1};
  const double magnitude = std::pow(10, std::floor(std::log10(most / 6)));
  double step = 10 * magnitude;
  for (const double factor : {1.0, 2.0, 5.0})
    if (most / (factor * magnitude) <= 6) {
      step = factor * magnitude;
      break;
    }
  std::vector<double> ticks;
  const double count = std::ceil(most / step - 1e-9);
  for (double i = 0; i <= count; ++i) ticks.push_back(i * step);
  return ticks;
}

std::string chart_number(double value) {
  if (std::abs(value) < 1000) return fmt::format("{:.4g}", value);
  const std::string digits = fmt::format("{:.0f}", std::abs(value));
  std::string text = value < 0 ? "-" : "";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string line_chart(const Chart& chart) {
  constexpr double kTop = 28, kBottom = 250, kLeft = 72, kRight = kWidth - 24, kHeight = 300;
  const std::vector<double> ticks = round_ticks(largest(chart));
  const std::size_t count = chart.labels.size();
  const double band = (kRight - kLeft) / static_cast<double>(count);
  const auto x = [&](std::size_t i) { return kLeft + band * (static_cast<double>(i) + 0.5); };
  const auto y = [&](double value) { return kBottom - (kBottom - kTop) * value / ticks.back(); };

  std::string svg = begin_svg(chart, kHeight);
  svg += text_at(kLeft - 8, kTop - 14, "end", "tick", chart.unit);
  for (const double tick : ticks) {
    svg += line(kLeft, y(tick), kRight, y(tick), tick == 0 ? "axis" : "grid");
    svg += text_at(kLeft - 8, y(tick) + 4, "end", "tick", chart_number(tick));
  }
  for (std::size_t i = 0; i < count; ++i)
    svg += text_at(x(i), kBottom + 20, "middle", "tick", chart.labels[i]);
  svg += text_at((kLeft + kRight) / 2, kBottom + 42, "middle", "label", chart.x_title);

  // Marks of several series that have no value there stand side by side.
  const auto marked = static_cast<double>(std::count_if(chart.series.begin(), chart.series.end(),
                                                        [](const ChartSeries& s) { return !s.secondary; }));
  double order = 0;
  for (const ChartSeries& s : chart.series) {
    svg += path(s, x, y);
    const double aside = 14 * (order++ - 0.5 * (marked - 1));
    for (std::size_t i = 0; i < count; ++i) {
      if (const auto& p = s.points[i]) {
        if (p->high > p->low)
          svg += line(x(i), y(p->low), x(i), y(p->high), fmt::format("whisker c{}", s.color));
        svg += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" class=\"point c{}{}\"><title>{}</title></circle>\n",
            x(i), y(p->value), s.secondary ? 3 : 4, s.color, s.secondary ? " hollow" : "",
            html_escaped(p->tip));
      } else if (i < s.gaps.size() && !s.gaps[i].empty()) {
        svg += fmt::format(
            "<path d=\"M{0:.1f} {1:.1f} l8 8 m0 -8 l-8 8\" class=\"line c{2}\"><title>{3}</title></path>\n",
            x(i) + std::clamp(aside, -band / 2, band / 2) - 4, kBottom - 14, s.color,
            html_escaped(s.gaps[i]));
      }
    }
  }
  return svg + "</svg>\n";
}

std::string bar_chart(const Chart& chart) {
  constexpr double kBar = 14, kLabel = 20, kSpace = 14, kLeft = 2, kRight = kWidth - 150;
  const double most = largest(chart);
  const double row = kLabel + kBar * static_cast<double>(chart.series.size()) + kSpace;
  std::string svg = begin_svg(chart, row * static_cast<double>(chart.labels.size()) + 4);
  for (std::size_t i = 0; i < chart.labels.size(); ++i) {
    double top = row * static_cast<double>(i);
    svg += text_at(kLeft, top + 13, "start", "label", chart.labels[i]);
    top += kLabel;
    for (const ChartSeries& s : chart.series) {
      if (const auto& p = s.points[i]) {
        const double width = most > 0 ? std::max(1.0, (kRight - kLeft) * p->value / most) : 1.0;
        svg += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"2\" class=\"bar "
            "c{}{}\"><title>{}</title></rect>\n",
            kLeft, top, width, kBar - 2, s.color, s.secondary ? " pale" : "", html_escaped(p->tip));
        double end = kLeft + width;
        if (p->high > p->low) {
          const double from = kLeft + (kRight - kLeft) * p->low / most,
                       to = kLeft + (kRight - kLeft) * p->high / most;
          svg += line(from, top + kBar / 2 - 1, to, top + kBar / 2 - 1, "error");
          end = std::max(end, to);
        }
        svg += text_at(end + 6, top + 10, "start", "tick", chart_number(p->value) + " " + chart.unit);
      } else if (i < s.gaps.size() && !s.gaps[i].empty()) {
        svg += text_at(kLeft, top + 10, "start", "tick", s.gaps[i]);
      }
      top += kBar;
    }
  }
  return svg + "</svg>\n";
}

}  // namespace titan
