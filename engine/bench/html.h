// A bench as one page: charts, table, machine, recipe. No script, and nothing from the network.
#pragma once

#include <string>

#include "engine/bench/report.h"

namespace titan {

/// Lines over the first swept key whose values are all numbers, one for each combination of the other keys;
/// bars, one for each combination, where there is no such key or too many lines. The page is well-formed XML
/// after its first line.
std::string bench_html(const BenchReport& report);

}  // namespace titan
