// Streams, events and memory of the host's CUDA for tests, and kernels to put into streams.
#pragma once

#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <vector>

#include "kernels/cuda/dialect.h"

namespace titan::cuda::test {

struct NamedOrder {
  host::StreamOrder order;
  std::uint64_t seed;
};
inline constexpr std::array<NamedOrder, 8> kStreamOrders{{{host::StreamOrder::enqueued, 0},
                                                          {host::StreamOrder::late, 0},
                                                          {host::StreamOrder::newest, 0},
                                                          {host::StreamOrder::random, 1},
                                                          {host::StreamOrder::random, 2},
                                                          {host::StreamOrder::random, 3},
                                                          {host::StreamOrder::random, 4},
                                                          {host::StreamOrder::random, 5}}};

__global__ inline void set(float* y, float value) { *y = value; }
/// y = x + value
__global__ inline void add(const float* x, float* y, float value) { *y = *x + value; }
__global__ inline void sum(const float* a, const float* b, float* y) { *y = *a + *b; }

/// Three streams, some events and floats in device memory; forgets all work and errors at both ends.
class StreamsFixture {
 public:
  StreamsFixture() {
    host::reset_device();
    for (cudaStream_t& s : streams_) cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    for (cudaEvent_t& e : events_) cudaEventCreateWithFlags(&e, 0);
    void* p = nullptr;
    cudaMalloc(&p, kFloats * sizeof(float));
    x = static_cast<float*>(p);
    a = streams_[0], b = streams_[1], c = streams_[2];
    e = events_[0], f = events_[1], g = events_[2];
  }
  ~StreamsFixture() {
    host::set_stream_order(host::StreamOrder::enqueued);
    host::reset_device();
    for (const cudaStream_t s : streams_) cudaStreamDestroy(s);
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
    cudaFree(x);
    host::reset_device();
  }
  StreamsFixture(const StreamsFixture&) = delete;
  StreamsFixture& operator=(const StreamsFixture&) = delete;

  template <class Kernel, class... Arguments>
  void run(cudaStream_t stream, Kernel kernel, Arguments... arguments) {
    launch(kernel, dim3(1), dim3(1), 0, stream, arguments...);
  }
  /// `from` before what comes next in `to`.
  void order(cudaStream_t from, cudaStream_t to, cudaEvent_t event) {
    CHECK(cudaEventRecord(event, from) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(to, event) == cudaSuccess);
  }
  void clear() {
    host::reset_device();
    for (int i = 0; i < kFloats; ++i) x[i] = 0;
  }

  static constexpr int kFloats = 8;
  float* x = nullptr;  ///< [kFloats]
  cudaStream_t a = nullptr, b = nullptr, c = nullptr;
  cudaEvent_t e = nullptr, f = nullptr, g = nullptr;

 private:
  std::array<cudaStream_t, 3> streams_{};
  std::array<cudaEvent_t, 3> events_{};
};

/// In how many orders the program leaves `want` in the place that it returns.
template <class Program>
int right_orders(StreamsFixture& fixture, float want, Program program) {
  int right = 0;
  for (const NamedOrder& o : kStreamOrders) {
    fixture.clear();
    host::set_stream_order(o.order, o.seed);
    right += program() == want ? 1 : 0;
  }
  return right;
}
inline constexpr int kAllOrders = static_cast<int>(kStreamOrders.size());

}  // namespace titan::cuda::test
