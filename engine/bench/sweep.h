// Sweeps: keys of a recipe with the values that each is to take, and all their combinations.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

struct Sweep {
  std::string key;  ///< "training.local_batch_size"
  std::vector<std::string> values;
};

/// "key=a,b,c". Commas inside brackets or quotes belong to a value: lists are written ["a","b"]. Throws
/// UsageError for a missing key or value and for a value that stands twice.
Sweep parse_sweep(std::string_view text);

/// Every combination, one value for each sweep, the last sweep changing fastest; of no sweeps the one empty
/// combination. Throws UsageError for a key that is swept twice and for more than 10,000 combinations.
std::vector<std::vector<std::string>> combinations(std::span<const Sweep> sweeps);

}  // namespace titan
