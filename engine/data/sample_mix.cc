#include "engine/data/sample_mix.h"

#include "kernels/base/error.h"

#include <algorithm>
#include <numeric>

namespace titan {

namespace {

constexpr size_t kMostParts = 1000;
constexpr size_t kMostDigits = 9;  // on either side of the point

struct Decimal {
  std::string_view whole, fraction;
};

Decimal parse_decimal(std::string_view text) {
  const size_t point = std::min(text.find('.'), text.size());
  const Decimal number{text.substr(0, point), text.substr(std::min(point + 1, text.size()))};
  const auto digits = [](std::string_view part) {
    return part.size() <= kMostDigits && part.find_first_not_of("0123456789") == part.npos;
  };
  const bool some = text.find_first_of("123456789") != text.npos;
  if (!some || !digits(number.whole) || !digits(number.fraction)) {
    throw UserError(fmt::format("the weight \"{}\" is not a positive decimal number such as 0.7", text));
  }
  return number;
}

/// In units of the last of `places` decimal places.
int64_t scaled(const Decimal& number, size_t places) {
  int64_t value = 0;
  for (const char digit : number.whole) value = 10 * value + (digit - '0');
  for (size_t i = 0; i < places; ++i)
    value = 10 * value + (i < number.fraction.size() ? number.fraction[i] - '0' : 0);
  return value;
}

/// One period of turns. Before turn n (from 1) data set i is `lag` = n · w - given · W behind, in units of
/// 1/W samples. Of those that may take the turn without getting too far ahead, the one that soonest must
/// does.
std::vector<uint16_t> assign_turns(const std::vector<int64_t>& weights) {
  const int64_t period = std::accumulate(weights.begin(), weights.end(), int64_t{0});
  const auto parts = static_cast<int64_t>(weights.size());
  std::vector<uint16_t> turns(static_cast<size_t>(period), 0);
  if (parts == 1) return turns;
  std::vector<int64_t> lag(weights.size(), 0);
  for (uint16_t& turn : turns) {
    size_t best = weights.size();
    int64_t best_slack = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      lag[i] += weights[i];
      if ((2 * parts - 2) * lag[i] < period) continue;
      const int64_t slack = (2 * parts - 3) * period - (2 * parts - 2) * lag[i];
      // slack / weight is the time until it must
      if (best == weights.size() || slack * weights[best] < best_slack * weights[i]) {
        best = i;
        best_slack = slack;
      }
    }
    TITAN_CHECK_LT(best, weights.size());
    lag[best] -= period;
    turn = static_cast<uint16_t>(best);
  }
  return turns;
}

}  // namespace

std::vector<int64_t> whole_weights(std::span<const std::string_view> weights) {
  if (weights.size() > kMostParts)
    throw UserError(
        fmt::format("{} data sets in a mixture; it holds at most {}", weights.size(), kMostParts));
  std::vector<Decimal> numbers;
  size_t places = 0;
  for (const std::string_view weight : weights) {
    numbers.push_back(parse_decimal(weight));
    places = std::max(places, numbers.back().fraction.size());
  }
  std::vector<int64_t> whole;
  int64_t divisor = 0;
  for (const Decimal& number : numbers) {
    whole.push_back(scaled(number, places));
    divisor = std::gcd(divisor, whole.back());
  }
  int64_t sum = 0;
  for (int64_t& weight : whole) {
    weight /= divisor;
    if (weight <= kLongestPeriod) sum += weight;
    if (weight > kLongestPeriod || sum > kLongestPeriod) {
      throw UserError(
          fmt::format("the weights {} have no common measure: as whole numbers in their ratio their sum "
                      "exceeds {}; round "
                      "them to fewer digits, for example to thousandths of their sum",
                      fmt::join(weights, ", "), kLongestPeriod));
    }
  }
  return whole;
}

SampleMix::SampleMix(const std::vector<int64_t>& windows, const std::vector<int64_t>& weights, uint64_t seed)
    : turns_(assign_turns(weights)), places_(weights.size()) {
  TITAN_CHECK(windows.size() == weights.size() && !windows.empty() && windows.size() <= kMostParts);
  for (size_t i = 0; i < windows.size(); ++i)
    orders_.emplace_back(windows[i], seed + i * 0x9E3779B97F4A7C15);  // data sets of one size differ
  for (size_t i = 0; i < turns_.size(); ++i) places_[turns_[i]].push_back(static_cast<int32_t>(i));
}

int64_t SampleMix::drawn(size_t part, int64_t samples) const {
  const auto period = static_cast<int64_t>(turns_.size());
  const std::vector<int32_t>& places = places_[part];
  const auto end = std::lower_bound(places.begin(), places.end(), samples % period);
  return samples / period * static_cast<int64_t>(places.size()) + (end - places.begin());
}

SampleMix::Sample SampleMix::operator()(int64_t sample) const {
  TITAN_CHECK(sample >= 0, "sample = {}", sample);
  const size_t part = turns_[static_cast<size_t>(sample) % turns_.size()];
  const int64_t number = drawn(part, sample);
  return {part, orders_[part](number), orders_[part].epoch(number)};
}

int64_t SampleMix::epoch(int64_t sample) const {
  int64_t highest = 0;
  for (size_t part = 0; part < orders_.size(); ++part) {
    const int64_t number = drawn(part, sample + 1);
    if (number > 0) highest = std::max(highest, orders_[part].epoch(number - 1));
  }
  return highest;
}

}  // namespace titan
