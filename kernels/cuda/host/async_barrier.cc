#include "kernels/cuda/host/async_barrier.h"

#include <fmt/format.h>

#include <map>

namespace titan::cuda::host {
namespace {

struct Barrier {
  std::uint32_t arrivals = 0;  ///< of every phase
  std::int64_t missing = 0;    ///< arrivals
  std::int64_t bytes = 0;      ///< expected and not there, or there and not expected
  unsigned phase = 0;
  Dim3 initialiser{};      ///< thread
  bool published = false;  ///< by it, to copies
};

bool same(const Dim3& a, const Dim3& b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

struct Barriers {
  std::map<const std::uint64_t*, Barrier> of;
};

Barrier& find(const std::uint64_t* barrier, Site site) {
  const auto it = of_block<Barriers>().of.find(barrier);
  if (it == of_block<Barriers>().of.end()) fail("an mbarrier that nobody has initialised", site);
  return it->second;
}

void advance(Barrier& b) {
  if (b.missing != 0 || b.bytes != 0) return;
  b.missing = b.arrivals;
  b.phase ^= 1;
}

void arrive(Barrier& b, Site site) {
  if (b.missing == 0)
    fail(fmt::format("an arrival more than the {} that the mbarrier's phase takes", b.arrivals), site);
  --b.missing;
  advance(b);
}

}  // namespace

void init_barrier(std::uint64_t* barrier, std::uint32_t arrivals, Site site) {
  check_aligned(barrier, sizeof *barrier, site);
  if (arrivals == 0) fail("an mbarrier of no arrivals", site);
  const Barrier made{.arrivals = arrivals, .missing = arrivals, .initialiser = thread_index()};
  if (!of_block<Barriers>().of.emplace(barrier, made).second) fail("an mbarrier initialised twice", site);
}

void publish_barriers() {
  for (auto& [address, barrier] : of_block<Barriers>().of)
    barrier.published = barrier.published || same(barrier.initialiser, thread_index());
}

void check_published(std::uint64_t* barrier, Site site) {
  if (!find(barrier, site).published)
    fail("a copy that shall arrive at an mbarrier whose initialisation no fence has published", site);
}

void arrive(std::uint64_t* barrier, Site site) { arrive(find(barrier, site), site); }

void arrive_expecting(std::uint64_t* barrier, std::uint32_t bytes, Site site) {
  Barrier& b = find(barrier, site);
  b.bytes += bytes;
  arrive(b, site);
}

void complete_bytes(std::uint64_t* barrier, std::uint32_t bytes, Site site) {
  Barrier& b = find(barrier, site);
  b.bytes -= bytes;
  advance(b);
}

void wait_parity(std::uint64_t* barrier, unsigned parity, Site site) {
  const Barrier& b = find(barrier, site);
  wait_until([&] { return b.phase != (parity & 1u); },
             [&] {
               return fmt::format("an mbarrier that lacks {} arrivals and {} bytes{}", b.missing,
                                  b.bytes < 0 ? -b.bytes : b.bytes, b.bytes < 0 ? " too many have come" : "");
             },
             site);
}

}  // namespace titan::cuda::host
