#include "engine/data/batch_loader.h"

#include "kernels/base/error.h"
#include "kernels/base/threads.h"

#include <pthread.h>

#include <chrono>
#include <vector>

namespace titan {

namespace {

void check_options(const BatchLoaderOptions& o) {
  TITAN_CHECK(o.dp_rank >= 0 && o.dp_rank < o.dp_size, "dp_rank {} of {}", o.dp_rank, o.dp_size);
  TITAN_CHECK(o.shape.micro_batches > 0 && o.shape.rows > 0 && o.prefetch > 0);
  if (o.global_batch < 1) {
    throw UsageError(fmt::format("the global batch is {} sequences; it must be at least 1", o.global_batch));
  }
  const int64_t largest_share = (o.global_batch + o.dp_size - 1) / o.dp_size;
  if (largest_share > o.shape.sequences()) {
    throw UsageError(fmt::format(
        "a global batch of {} sequences over {} data-parallel ranks gives a rank {}, but {} micro-batches of "
        "{} hold only {}; "
        "raise training.local_batch_size or the number of micro-batches",
        o.global_batch, o.dp_size, largest_share, o.shape.micro_batches, o.shape.rows, o.shape.sequences()));
  }
}

}  // namespace

SampleMix sample_order(const std::vector<DataPart>& parts, uint64_t seed) {
  std::vector<int64_t> windows, weights;
  for (const DataPart& part : parts) {
    windows.push_back(part.range.count);
    weights.push_back(part.weight);
  }
  return {windows, weights, seed};
}

BatchLoader::BatchLoader(std::vector<DataPart> parts, const BatchLoaderOptions& options,
                         int64_t samples_consumed)
    : parts_(std::move(parts)),
      options_(options),
      order_(sample_order(parts_, options.seed)),
      samples_consumed_(samples_consumed) {
  check_options(options);
  for (const auto& [dataset, range, weight] : parts_) {
    TITAN_CHECK(range.first >= 0 && range.first + range.count <= dataset->windows());
    TITAN_CHECK_EQ(dataset->seq_len(), parts_.front().dataset->seq_len());
  }
  thread_ = start_thread([this, samples_consumed] { prefetch(samples_consumed); });
  pthread_setname_np(thread_.native_handle(), "titan-data");  // for those who watch the run
}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Batch BatchLoader::next() {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.empty() || error_; });
  if (ready_.empty()) std::rethrow_exception(error_);
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  changed_.notify_all();
  samples_consumed_ += options_.global_batch;
  batch.wait_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return batch;
}

Batch BatchLoader::load(int64_t first_sample) const {
  const RankShare share = rank_share(options_.global_batch, options_.dp_rank, options_.dp_size);
  std::vector<WindowRef> windows;
  for (int64_t i = share.begin; i < share.end; ++i) {
    const SampleMix::Sample sample = order_(first_sample + i);
    const DataPart& part = parts_[sample.part];
    windows.push_back({part.dataset, part.range.first + sample.window});
  }
  Batch batch = make_batch(windows, parts_.front().dataset->seq_len(), options_.shape);
  batch.first_sample = first_sample;
  batch.epoch = order_.epoch(first_sample + options_.global_batch - 1);
  return batch;
}

void BatchLoader::prefetch(int64_t first_sample) {
  try {
    for (;; first_sample += options_.global_batch) {
      Batch batch = load(first_sample);
      std::unique_lock lock(mutex_);
      changed_.wait(lock,
                    [this] { return stopping_ || ready_.size() < static_cast<size_t>(options_.prefetch); });
      if (stopping_) return;
      ready_.push_back(std::move(batch));
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    changed_.notify_all();
  }
}

}  // namespace titan
