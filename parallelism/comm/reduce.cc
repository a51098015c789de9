#include "parallelism/comm/reduce.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/bf16.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

/// Block of elements whose f32 results stay in the first-level cache while the parts pass over them.
constexpr std::int64_t kBlock = 1024;

/// A NaN wins: it must stop the step.
float larger(float a, float b) { return std::isnan(a) || a > b ? a : b; }

template <class T>
void combine(const T* x, float* sum, std::int64_t n, Reduction reduction) {
  if (reduction == Reduction::sum)
    for (std::int64_t i = 0; i < n; ++i) sum[i] += to_float(x[i]);
  else
    for (std::int64_t i = 0; i < n; ++i) sum[i] = larger(sum[i], to_float(x[i]));
}

template <class T>
void load(const T* x, float* sum, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] = to_float(x[i]);
}

void store(const float* sum, float* y, std::int64_t n, bool add) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = add ? y[i] + sum[i] : sum[i];
}
void store(const float* sum, bf16* y, std::int64_t n, bool add) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = to_bf16(add ? to_float(y[i]) + sum[i] : sum[i]);
}

template <class T, class U>
void reduce_float(std::span<const void* const> parts, U* y, std::int64_t count, Reduction reduction,
                  bool add) {
  float sum[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    load(static_cast<const T*>(parts[0]) + begin, sum, n);
    for (const void* part : parts.subspan(1)) combine(static_cast<const T*>(part) + begin, sum, n, reduction);
    store(sum, y + begin, n, add);
  }
}

void reduce_int(std::span<const void* const> parts, std::int32_t* y, std::int64_t count,
                Reduction reduction) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::int32_t value = static_cast<const std::int32_t*>(parts[0])[i];
    for (const void* part : parts.subspan(1)) {
      const std::int32_t x = static_cast<const std::int32_t*>(part)[i];
      value = reduction == Reduction::sum ? value + x : std::max(value, x);
    }
    y[i] = value;
  }
}

}  // namespace

void reduce(std::span<const void* const> parts, DType part_dtype, void* y, DType y_dtype, std::int64_t count,
            Reduction reduction, bool add) {
  const bool from_bf16 = part_dtype == DType::bf16, to_bf16 = y_dtype == DType::bf16;
  if (part_dtype == DType::i32) {
    TITAN_CHECK(y_dtype == DType::i32 && !add);
    return reduce_int(parts, static_cast<std::int32_t*>(y), count, reduction);
  }
  TITAN_CHECK(from_bf16 || part_dtype == DType::f32, "dtype {}", to_string(part_dtype));
  TITAN_CHECK(to_bf16 || y_dtype == DType::f32, "dtype {}", to_string(y_dtype));
  if (from_bf16 && to_bf16) return reduce_float<bf16>(parts, static_cast<bf16*>(y), count, reduction, add);
  if (from_bf16) return reduce_float<bf16>(parts, static_cast<float*>(y), count, reduction, add);
  if (to_bf16) return reduce_float<float>(parts, static_cast<bf16*>(y), count, reduction, add);
  reduce_float<float>(parts, static_cast<float*>(y), count, reduction, add);
}

}  // namespace titan
