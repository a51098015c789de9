#include "kernels/cpu/elementwise/lanes.h"

namespace titan::cpu::TITAN_ISA {
namespace {

constexpr int64_t kChunk = 2048;  // logits that stay in the first-level cache between their two uses

/// e^x of one number, the same as in a vector.
TITAN_INLINE float exp1(float x) { return exp(broadcast(x))[0]; }

/// Maximum and Σ exp(x − maximum) in one pass over memory: the sum follows the maximum as it grows (Milakov
/// and Gimelshein, "Online normalizer calculation for softmax", 2018).
template <class T>
void logit_stats(const LogitStatsArgs& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const T* x = row<T>(a.logits, r);
    float maximum = -__FLT_MAX__;
    vfloat sums{};
    for (int64_t start = 0; start < a.cols; start += kChunk) {
      const int64_t n = a.cols - start < kChunk ? a.cols - start : kChunk;
      const float before = maximum;
      vfloat maxima = broadcast(maximum);
      for_each_vector(n, [&](int64_t i, auto lanes) {
        maxima = max(only(load(x + start + i, lanes), lanes, before), maxima);
      });
      maximum = max_lane(maxima);
      sums *= exp1(before - maximum);
      for_each_vector(n, [&](int64_t i, auto lanes) {
        sums += only(exp(load(x + start + i, lanes) - maximum), lanes, 0.0f);
      });
    }
    const int64_t target = *row<int32_t>(a.targets, r) - a.first_column;
    float* stats = row<float>(a.stats, r);
    stats[0] = maximum;
    stats[1] = sum(sums);
    stats[2] = target >= 0 && target < a.cols ? load1(x + target) : 0.0f;
  }
}

template <class T>
void cross_entropy_grad(const CrossEntropyGradArgs& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const T* x = row<T>(a.logits, r);
    T* d = row<T>(a.dlogits, r);
    const int32_t label = *row<int32_t>(a.targets, r);
    if (label < 0) {
      memset(d, 0, (size_t)a.cols * sizeof(T));
      continue;
    }
    const float* stats = row<float>(a.stats, r);
    const float maximum = stats[0], scale = 1.0f / (stats[1] * a.valid_tokens);
    const int64_t target = label - a.first_column;
    for_each_vector(a.cols, [&](int64_t i, auto lanes) {
      store(d + i, exp(load(x + i, lanes) - maximum) * scale, lanes);
    });
    // x[target] may be overwritten by now; stats hold it.
    if (target >= 0 && target < a.cols)
      store1(d + target, exp1(stats[2] - maximum) * scale - 1.0f / a.valid_tokens);
  }
}

}  // namespace

const LossKernels kLoss = {{logit_stats<float>, logit_stats<half>},
                           {cross_entropy_grad<float>, cross_entropy_grad<half>}};

}  // namespace titan::cpu::TITAN_ISA
