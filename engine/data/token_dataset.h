// The shards as one packed stream of tokens, seen through fixed windows.
//
// Window i covers tokens [i·S, i·S + S + 1) of the stream, S = seq_len: S inputs, and the same shifted by one
// as labels. Windows overlap by that one token, so every token of the stream but the first is a label exactly
// once.
#pragma once

#include "engine/data/token_shard.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace titan {

inline constexpr int32_t kIgnoredLabel = -100;  ///< as PyTorch's cross_entropy ignore_index

/// One sequence of model inputs, each of seq_len elements; see rule: key k is visible to query q of the same
/// sequence when doc_start[q] <= positions[k] <= positions[q].
struct SequenceView {
  std::span<int32_t> tokens;
  std::span<int32_t> labels;
  std::span<int32_t> positions;  ///< 0 .. seq_len-1
  std::span<int32_t>
      doc_start;  ///< position of the first token of the token's document; 0 without document mask
};

/// Windows [first, first + count).
struct WindowRange {
  int64_t first = 0;
  int64_t count = 0;
};

struct WindowSplit {
  WindowRange training;
  WindowRange validation;
};

/// Holds out the last floor(windows · fraction) windows, at least one when fraction > 0 and at most all but
/// one. No label of a validation window is a token or a label of a training window, except that the first
/// validation *input* is the last training label. Throws UserError when fraction is not in [0, 1) or too few
/// windows exist.
WindowSplit split_windows(int64_t windows, double validation_fraction);

/// Immutable; any thread may read it.
class TokenDataset {
 public:
  /// Throws UserError: damaged shards, shards of different tokenizers, fewer tokens than one window.
  TokenDataset(const std::vector<std::filesystem::path>& shards, int64_t seq_len, bool document_mask);

  int64_t seq_len() const { return seq_len_; }
  int64_t windows() const { return (token_count_ - 1) / seq_len_; }
  WindowRange all() const { return {0, windows()}; }
  int64_t token_count() const { return token_count_; }
  int64_t document_count() const { return document_count_; }
  int64_t vocab_size() const { return shards_.front().info().vocab_size; }

  void read_window(int64_t window, const SequenceView& out) const;

 private:
  void read_tokens(int64_t begin, std::span<int32_t> out) const;
  std::vector<int64_t> document_starts(int64_t begin, int64_t end) const;
  size_t shard_of(int64_t position) const;

  std::vector<TokenShard> shards_;
  std::vector<int64_t> first_token_;  ///< of each shard in the stream; one more entry, the total
  int64_t seq_len_;
  bool document_mask_;
  int64_t token_count_ = 0;
  int64_t document_count_ = 0;
};

}  // namespace titan
