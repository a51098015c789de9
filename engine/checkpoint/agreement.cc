#include "engine/checkpoint/agreement.h"

#include "engine/checkpoint/manifest.h"

#include <algorithm>
#include <exception>

namespace titan {
namespace {

// The first character of a rank's message; the greatest decides.
constexpr char kDone = '0', kDamaged = '1', kFailed = '2';

/// The worst outcome, first rank first: its character, "rank R: ", its message.
std::string verdict_of(const std::vector<std::string>& outcomes) {
  const auto worst =
      std::max_element(outcomes.begin(), outcomes.end(),
                       [](const std::string& a, const std::string& b) { return a.front() < b.front(); });
  if (worst->front() == kDone) return {kDone};
  return fmt::format("{}rank {}: {}", worst->front(), worst - outcomes.begin(), worst->substr(1));
}

}  // namespace

std::vector<std::string> run_on_all(Coordinator& coordinator, std::chrono::seconds timeout,
                                    const std::function<std::string()>& work) {
  std::string outcome;
  std::exception_ptr own;
  try {
    outcome = kDone + work();
  } catch (const DamagedCheckpoint& error) {
    outcome = kDamaged + std::string(error.what());
    own = std::current_exception();
  } catch (const std::exception& error) {
    outcome = kFailed + std::string(error.what());
    own = std::current_exception();
  }
  const char own_kind = outcome.front();
  std::vector<std::string> outcomes = coordinator.gather(std::move(outcome), timeout);
  const std::string verdict =
      coordinator.broadcast(coordinator.rank() == 0 ? verdict_of(outcomes) : "", timeout);
  if (verdict.front() != kDone) {
    if (own && own_kind == verdict.front()) std::rethrow_exception(own);
    if (verdict.front() == kDamaged) throw DamagedCheckpoint(verdict.substr(1));
    throw UserError(verdict.substr(1));
  }
  for (std::string& result : outcomes) result.erase(0, 1);
  return outcomes;
}

}  // namespace titan
