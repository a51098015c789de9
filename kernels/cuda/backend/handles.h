// Owners of the CUDA runtime's handles.
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "kernels/cuda/base/check.h"

namespace titan::cuda {

struct DestroyStream {
  void operator()(cudaStream_t s) const { cudaStreamDestroy(s); }
};
struct DestroyEvent {
  void operator()(cudaEvent_t e) const { cudaEventDestroy(e); }
};
struct DestroyGraph {
  void operator()(cudaGraph_t g) const { cudaGraphDestroy(g); }
};
struct DestroyGraphExec {
  void operator()(cudaGraphExec_t g) const { cudaGraphExecDestroy(g); }
};
template <class Handle, class Destroy>
using Owner = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

using Stream = Owner<cudaStream_t, DestroyStream>;
using Event = Owner<cudaEvent_t, DestroyEvent>;
using Graph = Owner<cudaGraph_t, DestroyGraph>;
using GraphExec = Owner<cudaGraphExec_t, DestroyGraphExec>;

/// A stream that the default one does not wait for.
inline Stream make_stream() {
  cudaStream_t stream = nullptr;
  TITAN_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}
inline Event make_event(bool timed) {
  cudaEvent_t event = nullptr;
  TITAN_CUDA(cudaEventCreateWithFlags(&event, timed ? 0 : cudaEventDisableTiming));
  return Event(event);
}

struct FreeDevice {
  void operator()(void* p) const { cudaFree(p); }
};
struct FreeHost {
  void operator()(void* p) const { cudaFreeHost(p); }
};
using DeviceBlock = std::unique_ptr<void, FreeDevice>;
using PinnedBlock = std::unique_ptr<void, FreeHost>;

}  // namespace titan::cuda
