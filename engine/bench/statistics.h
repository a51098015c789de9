// Middle and spread of measurements.
#pragma once

#include <vector>

namespace titan {

/// Zeros when there are no measurements.
struct Spread {
  int count = 0;
  double min = 0, quarter = 0, median = 0, three_quarters = 0, max = 0;
};

/// Quantiles lie between the two nearest of the sorted samples, in proportion: those of 1 2 3 4 are 1.75, 2.5
/// and 3.25.
Spread spread(std::vector<double> samples);

}  // namespace titan
