// What one data-parallel rank feeds into one step.
#pragma once

#include "engine/data/token_dataset.h"

#include <cstdint>
#include <span>
#include <vector>

namespace titan {

/// [rows · seq_len] each, row-major: sequence by sequence.
struct MicroBatch {
  std::vector<int32_t> tokens;
  std::vector<int32_t> labels;  ///< kIgnoredLabel where there is none
  std::vector<int32_t> positions;
  std::vector<int32_t> doc_start;
};

struct Batch {
  std::vector<MicroBatch> micro_batches;
  int64_t valid_tokens = 0;   ///< labels of this rank that count, over all micro-batches
  int64_t first_sample = 0;   ///< global number of the step's first sample (of all ranks)
  int64_t epoch = 0;          ///< of the step's last sample; the highest of all data sets of a mixture
  double wait_seconds = 0.0;  ///< how long next() waited for it: a data stall when it is not small
};

struct BatchShape {
  int64_t micro_batches = 1;
  int64_t rows = 1;  ///< sequences in one micro-batch of one rank
  int64_t sequences() const { return micro_batches * rows; }
};

/// The samples [begin, end) of a step's `global_batch` that `rank` of `ranks` takes: sizes differ by at most
/// one.
struct RankShare {
  int64_t begin = 0;
  int64_t end = 0;
};
RankShare rank_share(int64_t global_batch, int64_t rank, int64_t ranks);

/// A part of a data set, and its weight in a mixture of several.
struct DataPart {
  const TokenDataset* dataset;
  WindowRange range;
  int64_t weight = 1;
};

struct WindowRef {
  const TokenDataset* dataset;
  int64_t window;
};

/// Windows in order, row after row, micro-batch after micro-batch; the sequences that are left are fully
/// masked (token 0, label kIgnoredLabel), so they change neither the loss nor a gradient.
Batch make_batch(std::span<const WindowRef> windows, int64_t seq_len, const BatchShape& shape);

}  // namespace titan
