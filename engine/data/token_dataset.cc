#include "engine/data/token_dataset.h"

#include "kernels/base/error.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace titan {

WindowSplit split_windows(int64_t windows, double validation_fraction) {
  if (!(validation_fraction >= 0.0 && validation_fraction < 1.0)) {
    throw UserError(
        fmt::format("the validation fraction is {}; it must be at least 0 and below 1", validation_fraction));
  }
  if (validation_fraction == 0.0) return {{0, windows}, {windows, 0}};
  if (windows < 2) {
    throw UserError(
        fmt::format("{} sequence cannot be split into training and validation; give more text or a smaller "
                    "training.seq_len",
                    windows));
  }
  const auto share = static_cast<int64_t>(std::floor(static_cast<double>(windows) * validation_fraction));
  const int64_t held_out = std::clamp<int64_t>(share, 1, windows - 1);
  return {{0, windows - held_out}, {windows - held_out, held_out}};
}

TokenDataset::TokenDataset(const std::vector<std::filesystem::path>& shards, int64_t seq_len,
                           bool document_mask)
    : seq_len_(seq_len), document_mask_(document_mask) {
  TITAN_CHECK(!shards.empty());
  TITAN_CHECK(seq_len > 0, "seq_len = {}", seq_len);
  shards_.reserve(shards.size());
  for (const std::filesystem::path& path : shards) {
    const ShardInfo& info = shards_.emplace_back(path).info();
    const ShardInfo& first = shards_.front().info();
    if (info.tokenizer != first.tokenizer || info.vocab_size != first.vocab_size) {
      throw UserError(fmt::format(
          "{} was made by tokenizer {} (vocabulary {}), {} by {} ({}); prepare all data with one tokenizer",
          path.string(), info.tokenizer, info.vocab_size, shards.front().string(), first.tokenizer,
          first.vocab_size));
    }
    first_token_.push_back(token_count_);
    token_count_ += info.token_count;
    document_count_ += info.document_count;
  }
  first_token_.push_back(token_count_);
  if (windows() < 1) {
    throw UserError(
        fmt::format("the data has {} tokens, fewer than a sequence of {} and its last label need ({}); give "
                    "more text or a "
                    "smaller seq_len",
                    token_count_, seq_len, seq_len + 1));
  }
}

size_t TokenDataset::shard_of(int64_t position) const {
  const auto next = std::upper_bound(first_token_.begin(), first_token_.end(), position);
  return static_cast<size_t>(next - first_token_.begin()) - 1;
}

void TokenDataset::read_tokens(int64_t begin, std::span<int32_t> out) const {
  for (size_t shard = shard_of(begin); !out.empty(); ++shard) {
    const int64_t in_shard =
        std::min<int64_t>(static_cast<int64_t>(out.size()), first_token_[shard + 1] - begin);
    const auto part = static_cast<size_t>(in_shard);
    shards_[shard].read(begin - first_token_[shard], out.first(part));
    out = out.subspan(part);
    begin += in_shard;
  }
}

std::vector<int64_t> TokenDataset::document_starts(int64_t begin, int64_t end) const {
  std::vector<int64_t> starts;
  for (size_t shard = shard_of(begin); shard < shards_.size() && first_token_[shard] < end; ++shard) {
    const int64_t base = first_token_[shard];
    const int64_t shard_end = std::min(end, first_token_[shard + 1]);
    shards_[shard].document_starts(std::max<int64_t>(0, begin - base), shard_end - base, base, starts);
  }
  return starts;
}

void TokenDataset::read_window(int64_t window, const SequenceView& out) const {
  TITAN_CHECK(window >= 0 && window < windows(), "window {} of {}", window, windows());
  const int64_t begin = window * seq_len_;
  read_tokens(begin, out.tokens);
  read_tokens(begin + 1, out.labels);
  std::iota(out.positions.begin(), out.positions.end(), 0);
  std::fill(out.doc_start.begin(), out.doc_start.end(), 0);
  if (!document_mask_) return;
  for (const int64_t start : document_starts(begin, begin + seq_len_)) {
    const auto position = static_cast<int32_t>(start - begin);
    std::fill(out.doc_start.begin() + position, out.doc_start.end(), position);
  }
}

}  // namespace titan
