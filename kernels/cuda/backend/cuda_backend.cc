#include "kernels/cuda/backend/cuda_backend.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <variant>

#include "kernels/base/error.h"
#include "kernels/cuda/backend/devices.h"
#include "kernels/cuda/backend/handles.h"
#include "kernels/cuda/backend/recording.h"
#include "kernels/cuda/base/run.h"
#include "kernels/cuda/gemm/gemm_engine.h"
#include "kernels/op/communicator.h"
#include "kernels/op/op.h"

namespace titan::cuda {
namespace {

/// Lists that are longer run eagerly: a graph takes memory for every node, and a step of so many commands
/// does not wait for their launches.
constexpr std::size_t kMaxGraphCommands = 20'000;

double gib(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

DeviceInfo device_info(int device) {
  cudaDeviceProp properties;
  TITAN_CUDA(cudaGetDeviceProperties(&properties, device));
  return {.compute_capability = properties.major * 10 + properties.minor,
          .multiprocessors = properties.multiProcessorCount};
}

/// With the algorithms that its table holds, where there is such a file.
std::unique_ptr<GemmEngine> make_gemm_engine(const CudaOptions& options) {
  const std::string& table = options.gemm_table;
  const GemmOptions gemm{.multiprocessors = options.gemm_multiprocessors, .measure = !table.empty()};
  if (table.empty()) return std::make_unique<GemmEngine>(gemm);
  try {
    return std::make_unique<GemmEngine>(
        gemm, std::filesystem::exists(table) ? load_gemm_table(table) : GemmTable{});
  } catch (const UserError& error) {
    throw UserError(
        fmt::format("{}: {}; remove the file, or set cuda.measure_gemms = false", table, error.what()));
  }
}

/// Ends a capture that an exception interrupts.
class CaptureScope {
 public:
  explicit CaptureScope(cudaStream_t stream) : stream_(stream) {
    TITAN_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  }
  ~CaptureScope() {
    if (stream_ == nullptr) return;
    cudaGraph_t broken = nullptr;
    cudaStreamEndCapture(stream_, &broken);
    if (broken != nullptr) cudaGraphDestroy(broken);
    cudaGetLastError();
  }
  Graph end() {
    cudaGraph_t graph = nullptr;
    const cudaStream_t stream = std::exchange(stream_, nullptr);
    TITAN_CUDA(cudaStreamEndCapture(stream, &graph));
    return Graph(graph);
  }

 private:
  cudaStream_t stream_;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaOptions& options) : options_(options) {
    use_device(options.device);
    device_ = device_info(options.device);
    gemm_ = make_gemm_engine(options);
    saved_algorithms_ = gemm_->table().algorithms.size();
    fork_ = make_event(false);
    copies_ = make_stream();
    reserve_lanes(1);
  }
  ~CudaBackend() override {
    cudaSetDevice(options_.device);
    cudaDeviceSynchronize();
  }

  std::byte* allocate(Space space, std::int64_t bytes) override {
    choose_device();
    return space == Space::device ? allocate_device(static_cast<std::size_t>(bytes))
                                  : allocate_host(static_cast<std::size_t>(bytes));
  }

  void execute(std::span<const Command> commands, CommunicatorSet* communicators,
               std::span<CommandTime> times) override {
    TITAN_CHECK(times.empty() || times.size() == commands.size());
    if (commands.empty()) return;
    choose_device();
    Recording& recording = recording_of(commands);
    reserve_lanes(recording.lanes());
    communicators_ = communicators;
    if (!times.empty())
      run_timed(commands, recording, times);
    else if (!graph_allowed(commands, recording) || !run_graph(commands, recording))
      enqueue(commands, recording, {});
    ++recording.runs;
    finish();
    recording.rethrow_host_error();
    save_gemm_table();
  }

  void forget(std::span<const Command> commands) override {
    choose_device();
    recordings_.erase(commands.data());
  }

  bool host_addressable(Space space) const override { return space == Space::host; }
  void upload(const void* from, std::byte* to, std::int64_t bytes) override { copy(from, to, bytes); }
  void download(const std::byte* from, void* to, std::int64_t bytes) override { copy(from, to, bytes); }
  titan::DeviceMemory device_memory() override {
    choose_device();
    return device_memory_now();
  }

 private:
  /// Each thread has a device of its own, the first one unless it has chosen; streams and memory are of one.
  void choose_device() const { TITAN_CUDA(cudaSetDevice(options_.device)); }

  /// cudaMemcpy may return before the device has the bytes, and lanes do not wait for its stream.
  void copy(const void* from, void* to, std::int64_t bytes) {
    choose_device();
    TITAN_CUDA(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, copies_.get()));
    TITAN_CUDA(cudaStreamSynchronize(copies_.get()));
  }

  using Marks = std::span<const std::pair<Event, Event>>;

  std::byte* allocate_device(std::size_t bytes) {
    void* p = nullptr;
    const cudaError_t error = cudaMalloc(&p, bytes);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      const titan::DeviceMemory memory = device_memory_now();
      throw UserError(fmt::format(
          "the run needs {:.2f} GiB on the GPU, which has {:.2f} GiB free of {:.2f} GiB (the driver, "
          "libraries and "
          "other processes have the rest); lower training.local_batch_size or training.seq_len, or use "
          "activation_checkpoint.mode = \"full\"",
          gib(bytes), gib(static_cast<std::size_t>(memory.free_bytes)),
          gib(static_cast<std::size_t>(memory.total_bytes))));
    }
    TITAN_CUDA(error);
    device_blocks_.emplace_back(p);
    TITAN_CUDA(cudaMemsetAsync(p, 0, bytes, origin()));
    TITAN_CUDA(cudaStreamSynchronize(origin()));
    return static_cast<std::byte*>(p);
  }

  std::byte* allocate_host(std::size_t bytes) {
    void* p = nullptr;
    const cudaError_t error = cudaHostAlloc(&p, bytes, cudaHostAllocDefault);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw UserError(
          fmt::format("the run needs {:.2f} GiB of pinned host memory, and the system does not give it; free "
                      "some, or raise the limit of locked memory (`ulimit -l`)",
                      gib(bytes)));
    }
    TITAN_CUDA(error);
    pinned_blocks_.emplace_back(p);
    std::fill_n(static_cast<std::byte*>(p), bytes, std::byte{0});
    return static_cast<std::byte*>(p);
  }

  void reserve_lanes(int count) {
    while (static_cast<int>(lanes_.size()) < count) lanes_.push_back({make_stream(), make_event(false)});
  }
  cudaStream_t stream(int lane) const { return lanes_[static_cast<std::size_t>(lane)].stream.get(); }
  cudaStream_t origin() const { return stream(0); }

  void save_gemm_table() {
    if (options_.gemm_table.empty() || gemm_->table().algorithms.size() == saved_algorithms_) return;
    save(gemm_->table(), options_.gemm_table);
    saved_algorithms_ = gemm_->table().algorithms.size();
  }

  Recording& recording_of(std::span<const Command> commands) {
    std::unique_ptr<Recording>& slot = recordings_[commands.data()];
    if (slot == nullptr) slot = std::make_unique<Recording>(commands);
    return *slot;
  }

  /// The first run is eager: libraries choose and load kernels in it, which a capture must not do.
  bool graph_allowed(std::span<const Command> commands, const Recording& recording) const {
    return options_.graphs && !options_.synchronous && !recording.eager && recording.runs > 0 &&
           communicators_ == nullptr && commands.size() <= kMaxGraphCommands;
  }

  /// False, with nothing enqueued, when the device has no memory for the graph, which it allocates when it is
  /// instantiated or first launched.
  bool run_graph(std::span<const Command> commands, Recording& recording) {
    cudaError_t error = recording.graph == nullptr ? record(commands, recording) : cudaSuccess;
    if (error == cudaSuccess) error = cudaGraphLaunch(recording.graph.get(), origin());
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      recording.graph = nullptr;
      recording.eager = true;
      return false;
    }
    TITAN_CUDA(error);
    return true;
  }

  cudaError_t record(std::span<const Command> commands, Recording& recording) {
    CaptureScope capture(origin());
    enqueue(commands, recording, {});
    const Graph graph = capture.end();
    cudaGraphExec_t exec = nullptr;
    const cudaError_t error = cudaGraphInstantiate(&exec, graph.get(), 0);
    recording.graph = GraphExec(exec);
    return error;
  }

  /// All lanes start after what is in the first one, and the first one ends after all.
  void enqueue(std::span<const Command> commands, Recording& recording, Marks marks) {
    TITAN_CUDA(cudaEventRecord(fork_.get(), origin()));
    for (int lane = 1; lane < recording.lanes(); ++lane)
      if (recording.uses(lane)) TITAN_CUDA(cudaStreamWaitEvent(stream(lane), fork_.get()));
    for (std::size_t i = 0; i < commands.size(); ++i) enqueue_command(commands, i, recording, marks);
    for (int lane = 1; lane < recording.lanes(); ++lane) {
      if (!recording.uses(lane)) continue;
      const cudaEvent_t join = lanes_[static_cast<std::size_t>(lane)].join.get();
      TITAN_CUDA(cudaEventRecord(join, stream(lane)));
      TITAN_CUDA(cudaStreamWaitEvent(origin(), join));
    }
  }

  void enqueue_command(std::span<const Command> commands, std::size_t index, Recording& recording,
                       Marks marks) {
    const Command& command = commands[index];
    const cudaStream_t s = stream(command.lane);
    try {
      for (const Wait& wait : command.waits) TITAN_CUDA(cudaStreamWaitEvent(s, recording.event(wait)));
      if (!marks.empty()) TITAN_CUDA(cudaEventRecord(marks[index].first.get(), s));
      if (command.on_host)
        call_host(command, recording.host_call(index));
      else
        launch_op(command);
      if (options_.synchronous) TITAN_CUDA(cudaStreamSynchronize(s));
      if (!marks.empty()) TITAN_CUDA(cudaEventRecord(marks[index].second.get(), s));
      if (const cudaEvent_t event = recording.event(index)) TITAN_CUDA(cudaEventRecord(event, s));
    } catch (const std::exception& error) {
      if (communicators_ != nullptr) communicators_->abort_all();
      throw CommandError(index, error.what());
    }
  }

  void launch_op(const Command& command) {
    const Context context{.binding = command.binding,
                          .stream = stream(command.lane),
                          .device = device_,
                          .gemm = gemm_.get(),
                          .communicators = communicators_,
                          .lane = command.lane};
    std::visit([&](const auto& op) { cuda::run(op, context); }, *command.op);
    TITAN_CUDA(cudaGetLastError());
  }

  /// A thread of the CUDA runtime runs the command when its turn in the stream comes.
  void call_host(const Command& command, HostCall& call) {
    TITAN_CHECK(options_.host != nullptr, "there is no backend for operations on the host");
    call.host = options_.host.get();
    call.command = {.op = command.op, .binding = command.binding, .lane = 0, .ticket = 1, .waits = {}};
    TITAN_CUDA(cudaLaunchHostFunc(
        stream(command.lane),
        [](void* argument) {
          auto& c = *static_cast<HostCall*>(argument);
          try {
            c.host->execute(std::span(&c.command, 1), nullptr, {});
          } catch (...) {
            c.error = std::current_exception();
          }
        },
        &call));
  }

  void run_timed(std::span<const Command> commands, Recording& recording, std::span<CommandTime> times) {
    const Event start = make_event(true);
    std::vector<std::pair<Event, Event>> marks;
    for (std::size_t i = 0; i < commands.size(); ++i) marks.emplace_back(make_event(true), make_event(true));
    TITAN_CUDA(cudaEventRecord(start.get(), origin()));
    enqueue(commands, recording, marks);
    finish();
    const auto seconds = [&](const Event& event) {
      float milliseconds = 0;
      TITAN_CUDA(cudaEventElapsedTime(&milliseconds, start.get(), event.get()));
      return static_cast<double>(milliseconds) * 1e-3;
    };
    for (std::size_t i = 0; i < commands.size(); ++i)
      times[i] = {seconds(marks[i].first), seconds(marks[i].second)};
  }

  void finish() {
    const cudaError_t error = cudaStreamSynchronize(origin());
    if (error == cudaSuccess) return;
    if (communicators_ != nullptr) communicators_->abort_all();
    throw CudaError(fmt::format(
        "an operation failed on the GPU: {} ({}); TITAN_CUDA_SYNCHRONOUS=1 tells which one, at the price of "
        "speed",
        cudaGetErrorString(error), cudaGetErrorName(error)));
  }

  struct LaneState {
    Stream stream;
    Event join;
  };

  CudaOptions options_;
  DeviceInfo device_;
  CommunicatorSet* communicators_ = nullptr;
  std::vector<DeviceBlock> device_blocks_;
  std::vector<PinnedBlock> pinned_blocks_;
  Event fork_;
  Stream copies_;
  std::vector<LaneState> lanes_;
  std::unique_ptr<GemmEngine> gemm_;  ///< for all lanes: workspaces are operands
  std::size_t saved_algorithms_ = 0;
  std::map<const Command*, std::unique_ptr<Recording>> recordings_;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

}  // namespace titan::cuda
