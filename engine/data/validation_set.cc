#include "engine/data/validation_set.h"

#include "kernels/base/error.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace titan {

ValidationSet::ValidationSet(std::vector<DataPart> parts, int64_t dp_rank, int64_t dp_size, BatchShape shape,
                             int64_t max_steps)
    : parts_(std::move(parts)), dp_rank_(dp_rank), dp_size_(dp_size), shape_(shape) {
  TITAN_CHECK(dp_rank >= 0 && dp_rank < dp_size, "dp_rank {} of {}", dp_rank, dp_size);
  TITAN_CHECK(shape.micro_batches > 0 && shape.rows > 0);
  for (const DataPart& part : parts_) count_ += part.range.count;
  if (count_ < 1) {
    throw UserError(
        "the validation set has no sequence; give more text, a larger held-out fraction or "
        "validation.dataset_path");
  }
  const int64_t per_step = dp_size * shape.sequences();
  const int64_t all = (count_ + per_step - 1) / per_step;
  steps_ = max_steps < 0 ? all : std::min(all, max_steps);
}

std::vector<WindowRef> ValidationSet::windows(int64_t begin, int64_t end) const {
  std::vector<WindowRef> refs;
  int64_t base = 0;
  for (const DataPart& part : parts_) {
    const int64_t stop = std::min(end - base, part.range.count);
    for (int64_t i = std::max<int64_t>(begin - base, 0); i < stop; ++i)
      refs.push_back({part.dataset, part.range.first + i});
    base += part.range.count;
  }
  return refs;
}

Batch ValidationSet::batch(int64_t step) const {
  TITAN_CHECK(step >= 0 && step < steps_, "step {} of {}", step, steps_);
  const int64_t per_step = dp_size_ * shape_.sequences();
  const int64_t first = step * per_step;
  const RankShare share = rank_share(std::min(per_step, count_ - first), dp_rank_, dp_size_);
  Batch batch =
      make_batch(windows(first + share.begin, first + share.end), parts_.front().dataset->seq_len(), shape_);
  batch.first_sample = first;
  return batch;
}

}  // namespace titan
