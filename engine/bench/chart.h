// Charts as inline SVG. Colours and fonts are classes that the page's style sheet defines (html.cc): "c0" to
// "c7" for series, "grid", "axis", "tick". Every text is escaped here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

inline constexpr std::size_t kChartColors = 8;

std::string html_escaped(std::string_view text);

struct ChartPoint {
  double value = 0, low = 0, high = 0;  ///< low == high: no whisker
  std::string tip;                      ///< what a pointer over it shows
};

/// One line, or one bar in each row.
struct ChartSeries {
  std::string name;
  std::size_t color = 0;                          ///< < kChartColors
  bool secondary = false;                         ///< dashed, or a pale bar
  std::vector<std::optional<ChartPoint>> points;  ///< one for each label; none: a gap
  std::vector<std::string> gaps;                  ///< one for each label: why there is a gap; empty: no mark
};

struct Chart {
  std::string title;  ///< for readers that do not see it
  std::string unit;   ///< of the values: "tokens/s"
  std::string x_title;
  std::vector<std::string> labels;  ///< along x, or of the rows of bars
  std::vector<ChartSeries> series;
};

/// Lines over equally spaced labels, from zero. At least one label.
std::string line_chart(const Chart& chart);

/// A row for each label: the label, and under it a bar for each series with its value, or why there is none.
std::string bar_chart(const Chart& chart);

/// 0 and round steps up to at least `most`: at most 6 steps. `most` <= 0 gives 0 and 1.
std::vector<double> round_ticks(double most);

/// "12,345", "3.25": for axes and bars.
std::string chart_number(double value);

}  // namespace titan
