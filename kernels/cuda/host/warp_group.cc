#include "kernels/cuda/host/warp_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/host/tensor_map.h"

namespace titan::cuda::host {
namespace {

constexpr int kRows = 64, kDepth = 16, kMostColumns = 256;

/// The fields of a 64-bit matrix descriptor (PTX ISA, wgmma: matrix descriptor), in bytes.
struct Descriptor {
  std::uint32_t start, leading, stride;
  unsigned base_offset, swizzle;

  explicit Descriptor(std::uint64_t bits)
      : start(field(bits, 0)),
        leading(field(bits, 16)),
        stride(field(bits, 32)),
        base_offset(static_cast<unsigned>(bits >> 49 & 7)),
        swizzle(static_cast<unsigned>(bits >> 62)) {}

 private:
  static std::uint32_t field(std::uint64_t bits, int at) {
    return static_cast<std::uint32_t>(bits >> at & 0x3fff) << 4;
  }
};

constexpr int kWarps = kWarpGroup / kWarp;
constexpr std::uint32_t kAllLanes = 0xffffffffu;

struct Brought {
  float* d;
  int columns;
  GroupProduct factors;
};
struct Factors {
  float a[kRows][kDepth], b[kDepth][kMostColumns];
};
/// The sums of all threads, one thread's after the other's.
using Sums = std::vector<float>;

struct Product {
  std::array<Brought, kWarpGroup> threads;
  Site site;
  int come = 0, waited = 0;                ///< warps
  Sums before;                             ///< what was in registers that no product under way adds to
  std::shared_ptr<const Factors> factors;  ///< as they were when the last warp came
};

/// What a warp has done: products are counted from the group's first one on.
struct Warp {
  std::size_t issued = 0, done = 0;
  std::vector<std::size_t> ends;  ///< of groups not waited for
  bool fenced = false;
};

/// Sums of products under way, and how many warps have got theirs.
struct Total {
  Sums sums;
  int taken = 0;
};

/// Warps wait for each other only where a product needs all four: nothing else orders what they do.
struct WarpGroup {
  std::deque<Product> products;
  std::size_t first = 0;           ///< number of products[0]
  std::map<float*, Total> totals;  ///< by the first thread's registers
  std::array<Warp, kWarps> warps;

  Product& product(std::size_t number) { return products[number - first]; }
};
struct WarpGroups {
  std::map<int, WarpGroup> of;
};

int thread_number() {
  const Dim3 index = thread_index(), size = block_size();
  return static_cast<int>(index.x + size.x * (index.y + size.y * index.z));
}
WarpGroup& own_group() { return of_block<WarpGroups>().of[thread_number() / kWarpGroup]; }
int own_warp() { return thread_number() % kWarpGroup / kWarp; }

float value_at(std::uint32_t address, Site site) {
  std::uint16_t bits;
  std::memcpy(&bits, shared_at(swizzled(address), sizeof bits, site), sizeof bits);
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

/// Where element (row, k) is before the swizzle: 128 bytes of k beside each other, 8 rows of those behind
/// each other, then `stride` to the next 8. Or transposed: 128 bytes of rows beside each other, then
/// `leading` to the next; 8 k behind each other, then `stride`.
std::uint32_t address_of(const Descriptor& d, int row, int k, bool transposed) {
  const auto r = static_cast<std::uint32_t>(row), c = static_cast<std::uint32_t>(k);
  if (transposed) return d.start + r / 64 * d.leading + c / 8 * d.stride + c % 8 * 128 + r % 64 * 2;
  return d.start + r / 8 * d.stride + r % 8 * 128 + c * 2;
}

void check(const Descriptor& d, Site site) {
  if (d.swizzle != 1 || d.base_offset != 0)
    fail(fmt::format(
             "only matrices with a swizzle of 128 bytes at multiples of 1024 run here; this one has mode {} "
             "and base offset {}",
             d.swizzle, d.base_offset),
         site);
}

/// A thread's part of a left factor, as it is in its registers.
void read_registers(const Product& p, int t, Factors& f) {
  for (int i = 0; i < 4; ++i) {
    const unsigned pair = p.threads[static_cast<std::size_t>(t)].factors.a_registers[i];
    float* const at = &f.a[t / 32 * 16 + t % 32 / 4 + i % 2 * 8][t % 4 * 2 + i / 2 * 8];
    at[0] = std::bit_cast<float>(pair << 16), at[1] = std::bit_cast<float>(pair & 0xffff0000u);
  }
}

bool left_is_in_registers(const Product& p) { return p.threads[0].factors.a_registers != nullptr; }

void read_a(const Product& p, Factors& f) {
  if (left_is_in_registers(p)) {
    for (int t = 0; t < kWarpGroup; ++t) read_registers(p, t, f);
    return;
  }
  const Descriptor d(p.threads[0].factors.a);
  check(d, p.site);
  for (int r = 0; r < kRows; ++r)
    for (int k = 0; k < kDepth; ++k) f.a[r][k] = value_at(address_of(d, r, k, false), p.site);
}

void read_b(const Product& p, Factors& f) {
  const GroupProduct& first = p.threads[0].factors;
  const Descriptor d(first.b);
  check(d, p.site);
  for (int n = 0; n < p.threads[0].columns; ++n)
    for (int k = 0; k < kDepth; ++k) f.b[k][n] = value_at(address_of(d, n, k, first.transposed_b), p.site);
}

/// Where the sum (row, col) is among those of all threads, each of which has columns / 2.
std::size_t place_of(int row, int col, int columns) {
  const int thread = row / 16 * 32 + row % 8 * 4 + col % 8 / 2;
  return static_cast<std::size_t>(thread * (columns / 2) + col / 8 * 4 + row % 16 / 8 * 2 + col % 2);
}

std::shared_ptr<const Factors> read_factors(const Product& p) {
  auto f = std::make_shared<Factors>();
  read_a(p, *f);
  read_b(p, *f);
  return f;
}

/// By a warp that has waited: until now the product may have read its registers, and shared memory until the
/// last warp has.
void check_unchanged(const Product& p, int warp) {
  const bool last = p.waited == kWarps;
  if (!last && !left_is_in_registers(p)) return;
  Factors now = *p.factors;
  if (left_is_in_registers(p))
    for (int lane = 0; lane < kWarp; ++lane) read_registers(p, warp * kWarp + lane, now);
  else
    read_a(p, now);
  if (last) read_b(p, now);
  if (std::memcmp(&now, p.factors.get(), sizeof now) != 0)
    fail("what a wgmma reads, shared memory or registers, has changed while it was on its way", p.site);
}

void multiply(const Product& p, Sums& sums) {
  const Factors& f = *p.factors;
  const int columns = p.threads[0].columns;
  for (int row = 0; row < kRows; ++row) {
    float sum[kMostColumns] = {};
    if (p.threads[0].factors.accumulate)
      for (int c = 0; c < columns; ++c) sum[c] = sums[place_of(row, c, columns)];
    for (int k = 0; k < kDepth; ++k)
      for (int c = 0; c < columns; ++c) sum[c] += f.a[row][k] * f.b[k][c];
    for (int c = 0; c < columns; ++c) sums[place_of(row, c, columns)] = sum[c];
  }
}

std::size_t own_count(const Product& p) { return static_cast<std::size_t>(p.threads[0].columns / 2); }

/// All warps have come: computes.
void begin(WarpGroup& group, Product& p) {
  const Brought& first = p.threads[0];
  for (const Brought& t : p.threads)
    if (t.factors.a != first.factors.a || t.factors.b != first.factors.b ||
        t.factors.accumulate != first.factors.accumulate)
      fail("threads of a warp group multiply different matrices", p.site);
  p.factors = read_factors(p);
  Total& total = group.totals[first.d];
  if (total.sums.empty()) total.sums = std::move(p.before);
  multiply(p, total.sums);
}

/// Whether a product of the warp, from that number on, adds to these registers.
bool under_way(WarpGroup& group, int warp, std::size_t from, const float* d) {
  const Warp& own = group.warps[static_cast<std::size_t>(warp)];
  for (std::size_t n = from; n < own.issued; ++n)
    if (group.product(n).threads[static_cast<std::size_t>(warp * kWarp)].d == d) return true;
  return false;
}

/// A warp comes to its next product.
void issue(WarpGroup& group, int warp, void* const* lanes, Site site) {
  Warp& own = group.warps[static_cast<std::size_t>(warp)];
  if (!own.fenced) fail("wgmma.mma_async without a wgmma.fence since the last group", site);
  const Brought& brought = *static_cast<const Brought*>(lanes[0]);
  const auto count = static_cast<std::size_t>(brought.columns / 2);
  if (own.issued == group.first + group.products.size()) {
    Product& made = group.products.emplace_back();
    made.site = site;
    made.before.resize(kWarpGroup * count);
  }
  Product& p = group.product(own.issued);
  if (p.site.line() != site.line() || p.site.column() != site.column())
    fail(fmt::format("warps of a warp group are at different places: another at line {}", p.site.line()),
         site);
  const bool takes = !under_way(group, warp, own.done, brought.d);
  for (int lane = 0; lane < kWarp; ++lane) {
    const auto t = static_cast<std::size_t>(warp * kWarp + lane);
    p.threads[t] = *static_cast<const Brought*>(lanes[lane]);
    if (!takes) continue;
    std::memcpy(&p.before[t * count], p.threads[t].d, count * sizeof(float));
    std::memset(p.threads[t].d, 0xff, count * sizeof(float));
  }
  ++own.issued;
  if (++p.come == kWarps) begin(group, p);
}

/// The warp's sums of a product go into its registers.
void deliver(WarpGroup& group, int warp, const Product& p) {
  Total& total = group.totals.at(p.threads[0].d);
  for (int lane = 0; lane < kWarp; ++lane) {
    const auto t = static_cast<std::size_t>(warp * kWarp + lane);
    std::memcpy(p.threads[t].d, &total.sums[t * own_count(p)], own_count(p) * sizeof(float));
  }
  if (++total.taken == kWarps) group.totals.erase(p.threads[0].d);
}

/// The number of the product up to which a wait for all groups but the last `pending` goes.
std::size_t end_of_wait(const Warp& warp, std::size_t pending) {
  return warp.ends.size() > pending ? warp.ends[warp.ends.size() - pending - 1] : warp.done;
}

bool have_come(WarpGroup& group, std::size_t from, std::size_t end) {
  for (std::size_t n = from; n < end; ++n)
    if (group.product(n).come < kWarps) return false;
  return true;
}

void finish(WarpGroup& group, int warp, std::size_t pending) {
  Warp& own = group.warps[static_cast<std::size_t>(warp)];
  const std::size_t end = end_of_wait(own, pending);
  for (std::size_t n = own.done; n < end; ++n) {
    Product& p = group.product(n);
    ++p.waited;
    check_unchanged(p, warp);
    if (!under_way(group, warp, n + 1, p.threads[static_cast<std::size_t>(warp * kWarp)].d))
      deliver(group, warp, p);
  }
  own.done = end;
  if (own.ends.size() > pending)
    own.ends.erase(own.ends.begin(), own.ends.end() - static_cast<std::ptrdiff_t>(pending));
  for (; !group.products.empty() && group.products.front().waited == kWarps; ++group.first)
    group.products.pop_front();
}

/// Runs act in one lane of the warp when all have come.
template <class Act>
void by_warp(void* brought, Act act, Site site) {
  if (block_size().count() % kWarpGroup != 0)
    fail(fmt::format("a block of {} threads has no warp groups", block_size().count()), site);
  collective(kAllLanes, brought, act, site);
}

}  // namespace

void fence_group(Site site) {
  Warp& warp = own_group().warps[static_cast<std::size_t>(own_warp())];
  by_warp(
      nullptr, [&](void* const*) { warp.fenced = true; }, site);
}

void multiply_group(float* d, int columns, const GroupProduct& factors, Site site) {
  WarpGroup& group = own_group();
  Brought own{d, columns, factors};
  by_warp(
      &own, [&](void* const* lanes) { issue(group, own_warp(), lanes, site); }, site);
}

void commit_group(Site site) {
  Warp& warp = own_group().warps[static_cast<std::size_t>(own_warp())];
  by_warp(
      nullptr,
      [&](void* const*) {
        warp.ends.push_back(warp.issued);
        warp.fenced = false;
      },
      site);
}

void wait_group(int pending, Site site) {
  WarpGroup& group = own_group();
  const int number = own_warp();
  const Warp& warp = group.warps[static_cast<std::size_t>(number)];
  const auto groups = static_cast<std::size_t>(pending);
  const std::size_t end = end_of_wait(warp, groups);
  wait_until([&] { return have_come(group, std::max(warp.done, group.first), end); },
             [] { return std::string("products that not all warps of its group have come to"); }, site);
  by_warp(
      nullptr, [&](void* const*) { finish(group, number, groups); }, site);
}

}  // namespace titan::cuda::host
