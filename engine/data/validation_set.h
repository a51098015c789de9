// Held-out windows in a fixed order. The number of steps is a formula of sizes every rank knows, so no rank
// can run out before the others.
#pragma once

#include "engine/data/batch.h"

#include <cstdint>
#include <vector>

namespace titan {

class ValidationSet {
 public:
  /// Step s of dp_size ranks takes windows [s·G, (s+1)·G) of `parts`, one after the other, G = dp_size ·
  /// shape.sequences(); the last step is filled with masked sequences. `max_steps` < 0: the whole range.
  /// Throws UserError when `parts` hold no window.
  ValidationSet(std::vector<DataPart> parts, int64_t dp_rank, int64_t dp_size, BatchShape shape,
                int64_t max_steps);

  int64_t steps() const { return steps_; }
  Batch batch(int64_t step) const;

 private:
  std::vector<WindowRef> windows(int64_t begin, int64_t end) const;

  std::vector<DataPart> parts_;
  int64_t count_ = 0;  ///< windows of all parts
  int64_t dp_rank_;
  int64_t dp_size_;
  BatchShape shape_;
  int64_t steps_;
};

}  // namespace titan
