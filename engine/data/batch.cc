#include "engine/data/batch.h"

#include "kernels/base/error.h"

#include <numeric>

namespace titan {

namespace {

SequenceView row_of(MicroBatch& micro_batch, int64_t row, int64_t seq_len) {
  const auto view = [&](std::vector<int32_t>& values) {
    return std::span(values).subspan(static_cast<size_t>(row * seq_len), static_cast<size_t>(seq_len));
  };
  return {view(micro_batch.tokens), view(micro_batch.labels), view(micro_batch.positions),
          view(micro_batch.doc_start)};
}

MicroBatch masked_micro_batch(int64_t rows, int64_t seq_len) {
  const auto size = static_cast<size_t>(rows * seq_len);
  MicroBatch out;
  out.tokens.assign(size, 0);
  out.labels.assign(size, kIgnoredLabel);
  out.positions.resize(size);
  out.doc_start.assign(size, 0);
  for (int64_t row = 0; row < rows; ++row) {
    const std::span<int32_t> positions = row_of(out, row, seq_len).positions;
    std::iota(positions.begin(), positions.end(), 0);
  }
  return out;
}

}  // namespace

RankShare rank_share(int64_t global_batch, int64_t rank, int64_t ranks) {
  TITAN_CHECK(rank >= 0 && rank < ranks, "rank {} of {}", rank, ranks);
  return {global_batch * rank / ranks, global_batch * (rank + 1) / ranks};
}

Batch make_batch(std::span<const WindowRef> windows, int64_t seq_len, const BatchShape& shape) {
  TITAN_CHECK_LE(static_cast<int64_t>(windows.size()), shape.sequences());
  Batch batch;
  for (int64_t i = 0; i < shape.micro_batches; ++i) {
    batch.micro_batches.push_back(masked_micro_batch(shape.rows, seq_len));
  }
  for (size_t i = 0; i < windows.size(); ++i) {
    const auto sequence = static_cast<int64_t>(i);
    MicroBatch& micro_batch = batch.micro_batches[static_cast<size_t>(sequence / shape.rows)];
    windows[i].dataset->read_window(windows[i].window, row_of(micro_batch, sequence % shape.rows, seq_len));
  }
  batch.valid_tokens = static_cast<int64_t>(windows.size()) * seq_len;
  return batch;
}

}  // namespace titan
