#include "kernels/cuda/gemm/gemm_tuning.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/cuda/base/check.h"

namespace titan::cuda {
namespace {

class Event {
 public:
  Event() { TITAN_CUDA(cudaEventCreateWithFlags(&event_, 0)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

double time_in_stream(FunctionRef<void()> launch, cudaStream_t stream) {
  const Event begin, end;
  TITAN_CUDA(cudaEventRecord(begin.get(), stream));
  launch();
  TITAN_CUDA(cudaEventRecord(end.get(), stream));
  TITAN_CUDA(cudaEventSynchronize(end.get()));
  float milliseconds = 0;
  TITAN_CUDA(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
  return milliseconds * 1e-3;
}

int fastest(int count, int repeats, FunctionRef<void(int candidate)> launch, const Stopwatch& stopwatch,
            cudaStream_t stream) {
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int candidate = 0; candidate < count; ++candidate) {
    launch(candidate);
    std::vector<double> seconds;
    for (int r = 0; r < repeats; ++r) seconds.push_back(stopwatch([&] { launch(candidate); }, stream));
    const double typical = median(std::move(seconds));
    if (typical < least) best = candidate, least = typical;
  }
  return best;
}

}  // namespace titan::cuda
