#include "engine/data/validation_set.h"

#include "kernels/base/error.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace titan {

ValidationSet::ValidationSet(const TokenDataset& dataset, WindowRange range, int64_t dp_rank, int64_t dp_size,
                             BatchShape shape, int64_t max_steps)
    : dataset_(dataset), range_(range), dp_rank_(dp_rank), dp_size_(dp_size), shape_(shape) {
  TITAN_CHECK(dp_rank >= 0 && dp_rank < dp_size, "dp_rank {} of {}", dp_rank, dp_size);
  TITAN_CHECK(shape.micro_batches > 0 && shape.rows > 0);
  if (range.count < 1) {
    throw UserError(
        "the validation set has no sequence; give more text, a larger held-out fraction or "
        "validation.dataset_path");
  }
  const int64_t per_step = dp_size * shape.sequences();
  const int64_t all = (range.count + per_step - 1) / per_step;
  steps_ = max_steps < 0 ? all : std::min(all, max_steps);
}

Batch ValidationSet::batch(int64_t step) const {
  TITAN_CHECK(step >= 0 && step < steps_, "step {} of {}", step, steps_);
  const int64_t per_step = dp_size_ * shape_.sequences();
  const int64_t first = step * per_step;
  const RankShare share = rank_share(std::min(per_step, range_.count - first), dp_rank_, dp_size_);
  std::vector<int64_t> windows(static_cast<size_t>(share.end - share.begin));
  std::iota(windows.begin(), windows.end(), range_.first + first + share.begin);
  Batch batch = make_batch(dataset_, windows, shape_);
  batch.first_sample = first;
  return batch;
}

}  // namespace titan
