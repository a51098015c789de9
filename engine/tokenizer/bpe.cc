#include "engine/tokenizer/bpe.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "kernels/base/error.h"

namespace titan {
namespace {

constexpr size_t kShortWord =
    48;  // symbols; up to here a scan per merge beats the heap (measured: equal near 60)
constexpr size_t kCacheWords = 8192;  // a power of two
constexpr size_t kCachedBytes = 64;   // longer words rarely come back

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

size_t mix(uint64_t key) {
  key *= 0x9E3779B97F4A7C15u;
  return key ^ key >> 32;
}

}  // namespace

void BpeModel::set_token(int32_t id, std::string_view bytes) {
  if (id >= static_cast<int32_t>(tokens.size())) tokens.resize(id + 1);
  tokens[id] = bytes;
}

Bpe::Scratch::Scratch() : cache(kCacheWords) {}

Bpe::Bpe(BpeModel model)
    : model_(std::move(model)),
      words_(model_.words.size()),
      slots_(std::bit_ceil(model_.merges.size() * 3 / 2 + 1)) {
  TITAN_CHECK_LT(model_.merges.size(), size_t{kNoRank});
  const size_t mask = slots_.size() - 1;
  for (uint32_t rank = 0; rank < model_.merges.size(); ++rank) {
    const Merge& merge = model_.merges[rank];
    const uint64_t pair = pair_key(merge.left, merge.right);
    size_t slot = mix(pair) & mask;
    while (slots_[slot].rank != kNoRank && slots_[slot].pair != pair) slot = (slot + 1) & mask;
    slots_[slot] = {pair, rank, merge.result};
  }
  for (const int32_t id : model_.words) words_.insert(model_.tokens[id], id);
  model_.merges = {};
  model_.words = {};
}

const Bpe::Slot& Bpe::find(int32_t left, int32_t right) const {
  const uint64_t pair = pair_key(left, right);
  const size_t mask = slots_.size() - 1;
  size_t slot = mix(pair) & mask;
  while (slots_[slot].rank != kNoRank && slots_[slot].pair != pair) slot = (slot + 1) & mask;
  return slots_[slot];
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  if (const int32_t id = words_.find(word); id != StringTable::kAbsent) {
    ids.push_back(id);
    return;
  }
  Scratch::CachedWord* cached = nullptr;
  if (word.size() <= kCachedBytes) {
    cached = &scratch.cache[XXH3_64bits(word.data(), word.size()) & (kCacheWords - 1)];
    if (cached->word == word) {
      ids.insert(ids.end(), cached->ids.begin(), cached->ids.end());
      return;
    }
  }
  scratch.ids.clear();
  for (const char c : word) {
    if (const int32_t id = model_.byte_ids[static_cast<unsigned char>(c)]; id >= 0) scratch.ids.push_back(id);
  }
  if (scratch.ids.size() <= kShortWord) {
    merge_short(scratch);
  } else {
    merge_long(scratch);
  }
  ids.insert(ids.end(), scratch.ids.begin(), scratch.ids.end());
  if (cached) {
    cached->word = word;
    cached->ids = scratch.ids;
  }
}

// ranks[i] belongs to the pair (ids[i], ids[i+1]); only the two pairs beside a merge change.
void Bpe::merge_short(Scratch& scratch) const {
  std::vector<int32_t>& ids = scratch.ids;
  std::vector<uint32_t>& ranks = scratch.ranks;
  ranks.clear();
  for (size_t i = 0; i + 1 < ids.size(); ++i) ranks.push_back(find(ids[i], ids[i + 1]).rank);
  while (!ranks.empty()) {
    const size_t best = std::min_element(ranks.begin(), ranks.end()) - ranks.begin();
    if (ranks[best] == kNoRank) break;
    ids[best] = find(ids[best], ids[best + 1]).result;
    ids.erase(ids.begin() + best + 1);
    ranks.erase(ranks.begin() + best);
    if (best < ranks.size()) ranks[best] = find(ids[best], ids[best + 1]).rank;
    if (best > 0) ranks[best - 1] = find(ids[best - 1], ids[best]).rank;
  }
}

// A linked list of symbols and a heap of candidate merges. A candidate is stale if its place has changed
// since: the pair there is longer then, so it has another rank, or none.
void Bpe::merge_long(Scratch& scratch) const {
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  std::vector<uint64_t>& heap = scratch.heap;
  TITAN_CHECK_LT(scratch.ids.size(), size_t{INT32_MAX});
  const int32_t count = static_cast<int32_t>(scratch.ids.size());
  symbols.clear();
  heap.clear();
  for (int32_t i = 0; i < count; ++i) symbols.push_back({scratch.ids[i], i - 1, i + 1 < count ? i + 1 : -1});

  const auto candidate = [&](int32_t left) {
    const uint32_t rank = find(symbols[left].id, symbols[symbols[left].next].id).rank;
    if (rank != kNoRank) heap.push_back(uint64_t{rank} << 32 | static_cast<uint32_t>(left));
    return rank != kNoRank;
  };
  for (int32_t i = 0; i + 1 < count; ++i) candidate(i);
  std::make_heap(heap.begin(), heap.end(), std::greater());

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater());
    const uint32_t rank = static_cast<uint32_t>(heap.back() >> 32);
    const int32_t left = static_cast<int32_t>(heap.back() & UINT32_MAX);
    heap.pop_back();
    Scratch::Symbol& symbol = symbols[left];
    if (symbol.id < 0 || symbol.next < 0) continue;
    Scratch::Symbol& right = symbols[symbol.next];
    const Slot& merge = find(symbol.id, right.id);
    if (merge.rank != rank) continue;
    symbol.id = merge.result;
    symbol.next = right.next;
    right.id = -1;
    if (symbol.next >= 0) {
      symbols[symbol.next].previous = left;
      if (candidate(left)) std::push_heap(heap.begin(), heap.end(), std::greater());
    }
    if (symbol.previous >= 0 && candidate(symbol.previous))
      std::push_heap(heap.begin(), heap.end(), std::greater());
  }
  scratch.ids.clear();
  for (int32_t i = 0; i >= 0; i = symbols[i].next) scratch.ids.push_back(symbols[i].id);
}

}  // namespace titan
