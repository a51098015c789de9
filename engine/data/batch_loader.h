// Training batches of one data-parallel rank, prefetched on a background thread.
#pragma once

#include "engine/data/batch.h"
#include "engine/data/sample_mix.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace titan {

struct BatchLoaderOptions {
  int64_t dp_rank = 0;
  int64_t dp_size = 1;
  int64_t global_batch = 1;  ///< sequences a step over all ranks; fixed when a run is created
  BatchShape shape;          ///< of this rank
  uint64_t seed = 0;
  int prefetch = 2;  ///< batches kept ready
};

/// The order in which a run with this seed visits its data.
SampleMix sample_order(const std::vector<DataPart>& parts, uint64_t seed);

/// A step takes samples [n, n + global_batch), n = samples_consumed. That number is the whole state: another
/// loader with the same data, seed and global batch goes on from it exactly, whatever its dp_size
/// and shape.
class BatchLoader {
 public:
  /// The data sets of `parts`, all of one seq_len, must outlive the loader. Throws UserError when a rank's
  /// share does not fit its shape, naming the fix.
  BatchLoader(std::vector<DataPart> parts, const BatchLoaderOptions& options, int64_t samples_consumed);
  ~BatchLoader();  ///< stops the thread; batches not taken are dropped
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// The next step's batch. Rethrows what the background thread threw, now and on every later call.
  Batch next();
  /// Of the batches handed out, not of those prefetched.
  int64_t samples_consumed() const { return samples_consumed_; }

 private:
  Batch load(int64_t first_sample) const;
  void prefetch(int64_t first_sample);

  std::vector<DataPart> parts_;
  BatchLoaderOptions options_;
  SampleMix order_;
  int64_t samples_consumed_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr error_;
  bool stopping_ = false;
  std::thread thread_;  ///< last: it uses all of the above
};

}  // namespace titan
