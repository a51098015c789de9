#include "tests/kernels/cuda/ops/cuda_runner.h"

#include "kernels/base/error.h"
#include "kernels/cuda/base/check.h"
#include "kernels/cuda/base/run.h"
#include "kernels/cuda/gemm/gemm_engine.h"

namespace titan::op_test {
namespace {

class CudaRunner final : public Runner {
 public:
  CudaRunner() {
    cudaDeviceProp device;
    TITAN_CUDA(cudaGetDeviceProperties(&device, 0));
    name_ = device.name;
    device_ = {.compute_capability = device.major * 10 + device.minor,
               .multiprocessors = device.multiProcessorCount};
    TITAN_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~CudaRunner() override { cudaStreamDestroy(stream_); }

  std::string name() const override { return name_; }
  std::vector<std::string> modes() const override { return device_modes(); }
  bool multiplies_bf16() const override { return true; }
  bool runs(const Op& op) const override {
    return std::visit([](const auto& o) { return kRuns<std::decay_t<decltype(o)>>; }, op);
  }

  void run(const Op& op, const Binding& binding, int mode) override {
    set_device_mode(mode);
    const cuda::Context context{.binding = binding, .stream = stream_, .device = device_, .gemm = &gemm_};
    std::visit(
        [&](const auto& o) {
          if constexpr (kRuns<std::decay_t<decltype(o)>>) cuda::run(o, context);
        },
        op);
    TITAN_CUDA(cudaGetLastError());
    TITAN_CUDA(cudaStreamSynchronize(stream_));
  }

  std::byte* allocate(std::size_t bytes) override {
    void* p = nullptr;
    TITAN_CUDA(cudaMalloc(&p, bytes));
    return static_cast<std::byte*>(p);
  }
  void free(std::byte* p) override { cudaFree(p); }
  void upload(const std::byte* from, std::byte* to, std::size_t bytes) override {
    TITAN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_));
    TITAN_CUDA(cudaStreamSynchronize(stream_));
  }
  void download(const std::byte* from, std::byte* to, std::size_t bytes) override {
    TITAN_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
  }

 private:
  /// Whether the backend has the op yet.
  template <class T>
  static constexpr bool kRuns = requires(const T& op, const cuda::Context& context) {
    cuda::run(op, context);
  };

  std::string name_;
  cuda::DeviceInfo device_;
  cuda::GemmEngine gemm_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

const std::vector<std::unique_ptr<Runner>>& runners() {
  static const std::vector<std::unique_ptr<Runner>> all = [] {
    std::vector<std::unique_ptr<Runner>> made;
    made.push_back(std::make_unique<CudaRunner>());
    return made;
  }();
  return all;
}

}  // namespace titan::op_test
