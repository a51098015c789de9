// Byte pair encoding of one word: starting from single bytes, the adjacent pair with the best (lowest) rank
// is merged, leftmost first, until no pair has a merge (Sennrich et al. 2016, over bytes as in GPT-2).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/string_table.h"

namespace titan {

struct Merge {
  int32_t left, right;  // token ids
  int32_t result;       // the id of the joined bytes
};

/// What a tokenizer file says about its model.
struct BpeModel {
  std::vector<std::string> tokens;    // the bytes of each id, added tokens too; empty: the id is unused
  std::array<int32_t, 256> byte_ids;  // the id of each single byte; -1: such bytes are dropped
  std::vector<Merge> merges;          // best first; of equal pairs the last counts
  std::vector<int32_t> words;         // tokens that a word of the same bytes becomes at once (ignore_merges)

  void set_token(int32_t id, std::string_view bytes);
};

class Bpe {
 public:
  /// Working memory of one thread, with a cache of words already encoded (bounded: about 2 MiB).
  class Scratch {
   public:
    Scratch();

   private:
    friend class Bpe;
    struct Symbol {
      int32_t id, previous, next;  // neighbours by index; -1: none; id -1: merged into the left neighbour
    };
    struct CachedWord {
      std::string word;
      std::vector<int32_t> ids;
    };
    std::vector<int32_t> ids;
    std::vector<uint32_t> ranks;
    std::vector<Symbol> symbols;
    std::vector<uint64_t> heap;     // rank << 32 | index of the left symbol: the least is merged next
    std::vector<CachedWord> cache;  // direct-mapped by hash
  };

  explicit Bpe(BpeModel model);

  /// Appends the ids of `word`. O(n log n).
  void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;

  const std::vector<std::string>& tokens() const { return model_.tokens; }

 private:
  static constexpr uint32_t kNoRank = UINT32_MAX;
  struct Slot {
    uint64_t pair;
    uint32_t rank = kNoRank;  // kNoRank: empty
    int32_t result = -1;
  };
  const Slot& find(int32_t left, int32_t right) const;
  void merge_short(Scratch& scratch) const;
  void merge_long(Scratch& scratch) const;

  BpeModel model_;  // without merges and words
  StringTable words_;
  std::vector<Slot> slots_;  // pair -> merge; open addressing, a power of two, at most 2/3 full
};

}  // namespace titan
