#include "kernels/cuda/host/warp_group.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
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

struct Brought {
  float* d;
  int columns;
  GroupProduct factors;
};
struct Factors {
  float a[kRows][kDepth], b[kDepth][kMostColumns];
};
struct Product {
  std::array<Brought, kWarpGroup> threads;
  Site site;
  std::shared_ptr<const Factors> factors;  ///< as they were when it began
};

/// The sums of all threads.
using Sums = std::vector<float>;

struct WarpGroup {
  std::vector<Product> products;  ///< not finished, oldest first
  std::vector<std::size_t> ends;  ///< of unfinished groups
  std::map<float*, Sums> sums;    ///< of unfinished products, by the first thread's registers
  bool fenced = false;
};
struct WarpGroups {
  std::map<int, WarpGroup> of;
};

WarpGroup& own_group() {
  const Dim3 index = thread_index(), size = block_size();
  const unsigned number = index.x + size.x * (index.y + size.y * index.z);
  return of_block<WarpGroups>().of[static_cast<int>(number) / kWarpGroup];
}

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

void read_a(const Product& p, Factors& f) {
  const GroupProduct& first = p.threads[0].factors;
  if (first.a_registers == nullptr) {
    const Descriptor d(first.a);
    check(d, p.site);
    for (int r = 0; r < kRows; ++r)
      for (int k = 0; k < kDepth; ++k) f.a[r][k] = value_at(address_of(d, r, k, false), p.site);
    return;
  }
  for (int t = 0; t < kWarpGroup; ++t)
    for (int i = 0; i < 4; ++i) {
      const unsigned pair = p.threads[static_cast<std::size_t>(t)].factors.a_registers[i];
      float* const at = &f.a[t / 32 * 16 + t % 32 / 4 + i % 2 * 8][t % 4 * 2 + i / 2 * 8];
      at[0] = std::bit_cast<float>(pair << 16), at[1] = std::bit_cast<float>(pair & 0xffff0000u);
    }
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

/// It may have read its factors at any time until now.
void check_unchanged(const Product& p) {
  if (std::memcmp(read_factors(p).get(), p.factors.get(), sizeof(Factors)) != 0)
    fail("what a wgmma reads, shared memory or registers, has changed while it was on its way", p.site);
}

void multiply(const Product& p, Sums& sums) {
  check_unchanged(p);
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

void begin(WarpGroup& group, const Product& p) {
  if (!group.fenced) fail("wgmma.mma_async without a wgmma.fence since the last group", p.site);
  const Brought& first = p.threads[0];
  for (const Brought& t : p.threads)
    if (t.factors.a != first.factors.a || t.factors.b != first.factors.b ||
        t.factors.accumulate != first.factors.accumulate)
      fail("threads of a warp group multiply different matrices", p.site);
  Sums& sums = group.sums[first.d];
  if (sums.empty()) {
    sums.resize(kWarpGroup * own_count(p));
    for (std::size_t t = 0; t < kWarpGroup; ++t) {
      std::memcpy(&sums[t * own_count(p)], p.threads[t].d, own_count(p) * sizeof(float));
      std::memset(p.threads[t].d, 0xff, own_count(p) * sizeof(float));
    }
  }
  group.products.push_back(p);
  group.products.back().factors = read_factors(p);
}

void finish(WarpGroup& group, std::size_t pending) {
  if (group.ends.size() <= pending) return;
  const std::size_t groups = group.ends.size() - pending, count = group.ends[groups - 1];
  std::map<float*, Product> last;
  for (std::size_t i = 0; i < count; ++i) {
    const Product& p = group.products[i];
    multiply(p, group.sums.at(p.threads[0].d));
    last.insert_or_assign(p.threads[0].d, p);
  }
  group.products.erase(group.products.begin(), group.products.begin() + static_cast<std::ptrdiff_t>(count));
  group.ends.erase(group.ends.begin(), group.ends.begin() + static_cast<std::ptrdiff_t>(groups));
  for (std::size_t& end : group.ends) end -= count;
  for (const Product& p : group.products) last.erase(p.threads[0].d);
  for (const auto& [d, p] : last) {
    const Sums& sums = group.sums.at(d);
    for (std::size_t t = 0; t < kWarpGroup; ++t)
      std::memcpy(p.threads[t].d, &sums[t * own_count(p)], own_count(p) * sizeof(float));
    group.sums.erase(d);
  }
}

}  // namespace

void fence_group(Site site) {
  WarpGroup& group = own_group();
  group_collective(
      nullptr, [&](void* const*) { group.fenced = true; }, site);
}

void multiply_group(float* d, int columns, const GroupProduct& factors, Site site) {
  WarpGroup& group = own_group();
  Brought own{d, columns, factors};
  group_collective(
      &own,
      [&](void* const* threads) {
        Product p;
        p.site = site;
        for (std::size_t t = 0; t < kWarpGroup; ++t) p.threads[t] = *static_cast<const Brought*>(threads[t]);
        begin(group, p);
      },
      site);
}

void commit_group(Site site) {
  WarpGroup& group = own_group();
  group_collective(
      nullptr,
      [&](void* const*) {
        group.ends.push_back(group.products.size());
        group.fenced = false;
      },
      site);
}

void wait_group(int pending, Site site) {
  WarpGroup& group = own_group();
  group_collective(
      nullptr, [&](void* const*) { finish(group, static_cast<std::size_t>(pending)); }, site);
}

}  // namespace titan::cuda::host
