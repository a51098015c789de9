#include "kernels/cuda/gemm/gemm_engine.h"

#include <utility>

#include "kernels/base/error.h"
#include "kernels/cuda/base/check.h"

namespace titan::cuda {
namespace {

bool captures(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  TITAN_CUDA(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

cudaDeviceProp current_device() {
  int device = 0;
  cudaDeviceProp properties;
  TITAN_CUDA(cudaGetDevice(&device));
  TITAN_CUDA(cudaGetDeviceProperties(&properties, device));
  return properties;
}

/// Device memory, or none when there is too little.
class Scratch {
 public:
  explicit Scratch(std::int64_t bytes) {
    if (cudaMalloc(&p_, static_cast<std::size_t>(bytes)) == cudaSuccess) return;
    p_ = nullptr;
    cudaGetLastError();
  }
  ~Scratch() { cudaFree(p_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* get() const { return p_; }

 private:
  void* p_ = nullptr;
};

}  // namespace

GemmTable GemmEngine::empty_table() {
  return {.device = current_device().name, .cublaslt_version = cublasLtGetVersion(), .algorithms = {}};
}

GemmEngine::GemmEngine(GemmOptions options, GemmTable table)
    : options_(std::move(options)), table_(empty_table()), library_(make_lt_library()) {
  const cudaDeviceProp device = current_device();
  compute_capability_ = device.major * 10 + device.minor;
  if (!table.algorithms.empty() && !table.made_like(table_))
    throw UserError(fmt::format(
        "the table of matrix products is for {} with cuBLASLt {}, and this is {} with cuBLASLt {}: "
        "its algorithms cannot be run here; start without it",
        table.device, table.cublaslt_version, table_.device, table_.cublaslt_version));
  table_.algorithms = std::move(table.algorithms);
}

void GemmEngine::multiply(GemmKey key, const GemmData& data, cudaStream_t stream) {
  key.multiprocessors = options_.multiprocessors;
  auto plan = plans_.find(key);
  if (plan == plans_.end()) plan = plans_.emplace(key, make_plan(key, data, stream)).first;
  plan->second.run(library_.get(), data, stream);
}

void GemmEngine::check_device(const GemmKey& key) const {
  constexpr int kFirstWithFloat8 = 89, kHopper = 90;
  const auto refuse = [&](const char* products, const char* needed, const char* fix) {
    throw UserError(fmt::format("{} need {}, and this is {}, compute capability {}.{}; {}", products, needed,
                                table_.device, compute_capability_ / 10, compute_capability_ % 10, fix));
  };
  if (is_float8(key.a) && compute_capability_ < kFirstWithFloat8)
    refuse("products of 8-bit floats", "compute capability 8.9 or newer", "train without Float8");
  if (key.scales == GemmScales::rows && compute_capability_ != kHopper)
    refuse("products of 8-bit floats scaled by row", "Hopper (compute capability 9.0)",
           "use quantize.linear.float8.recipe_name = \"tensorwise\"");
}

GemmPlan GemmEngine::make_plan(const GemmKey& key, const GemmData& data, cudaStream_t stream) {
  check_device(key);
  GemmPlan plan(key);
  const auto stored = table_.algorithms.find(key);
  if (stored == table_.algorithms.end()) {
    plan.algorithm = table_.algorithms[key] = choose(plan, data, stream);
    return plan;
  }
  plan.algorithm = stored->second;
  if (!plan.accepts(library_.get(), data, plan.algorithm))
    throw UserError(
        fmt::format("cuBLASLt does not run the algorithm that the table of matrix products has for {} = {}; "
                    "start without "
                    "the table",
                    key_columns(), to_text(key)));
  return plan;
}

GemmAlgorithm GemmEngine::choose(GemmPlan& plan, const GemmData& data, cudaStream_t stream) {
  if (options_.measure && !captures(stream)) return measure(plan, data, stream);
  return plan.candidates(library_.get(), data, 1).front();
}

GemmAlgorithm GemmEngine::measure(GemmPlan& plan, GemmData data, cudaStream_t stream) {
  const std::vector<GemmAlgorithm> candidates = plan.candidates(library_.get(), data, options_.candidates);
  // What a product overwrites may be overwritten more than once; sums go elsewhere.
  const GemmKey& key = plan.key();
  const Scratch scratch(key.adds ? ((key.m - 1) * key.c_pitch + key.n) * size_of(key.c) : 0);
  if (key.adds) data.c = scratch.get();
  if (candidates.size() == 1 || data.c == nullptr) return candidates.front();
  const auto launch = [&](int candidate) {
    plan.algorithm = candidates[static_cast<std::size_t>(candidate)];
    plan.run(library_.get(), data, stream);
  };
  const int best =
      fastest(static_cast<int>(candidates.size()), options_.repeats, launch, options_.stopwatch, stream);
  TITAN_CUDA(cudaStreamSynchronize(stream));
  return candidates[static_cast<std::size_t>(best)];
}

}  // namespace titan::cuda
