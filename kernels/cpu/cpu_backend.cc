#include "kernels/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/cpu/base/processors.h"
#include "kernels/cpu/base/run.h"
#include "kernels/cpu/gemm/onednn_gemm.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/memory.h"
#include "kernels/op/communicator.h"

namespace titan::cpu {
namespace {

int team_size(const CpuOptions& options) {
  return options.threads > 0 ? options.threads : static_cast<int>(allowed_processors().size());
}

/// Only a team that fills the process's processors is bound: a smaller one may have neighbours that would
/// take the same ones.
bool binds(const CpuOptions& options) {
  const int threads = team_size(options);
  return options.bind && threads > 1 && threads == static_cast<int>(allowed_processors().size());
}

/// One execution: the commands of each lane, and the first error.
class Execution {
 public:
  Execution(std::span<const Command> commands, const std::vector<std::unique_ptr<Lane>>& lanes, Isa isa,
            CommunicatorSet* communicators, std::span<CommandTime> times)
      : commands_(commands),
        lanes_(lanes),
        isa_(isa),
        communicators_(communicators),
        times_(times),
        queues_(lanes.size()) {
    TITAN_CHECK(times.empty() || times.size() == commands.size());
    for (std::size_t i = 0; i < commands.size(); ++i) enqueue(i);
  }

  void run() {
    for (const auto& lane : lanes_) lane->progress().reset();
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      if (!queues_[i].empty()) lanes_[i]->start([this, i] { run_lane(i); });
    for (const auto& lane : lanes_) lane->join();
    if (error_) throw *error_;
  }

 private:
  /// List order is the meaning: a command may wait only for commands before it, so lanes cannot wait in a
  /// circle.
  void enqueue(std::size_t index) {
    const Command& command = commands_[index];
    std::vector<std::size_t>& queue = queues_.at(command.lane);
    TITAN_CHECK_EQ(command.ticket, static_cast<std::int64_t>(queue.size()) + 1);
    for (const Wait& wait : command.waits)
      TITAN_CHECK_LE(wait.ticket, static_cast<std::int64_t>(queues_.at(wait.lane).size()));
    queue.push_back(index);
  }

  void run_lane(std::size_t lane) {
    for (const std::size_t index : queues_[lane]) {
      try {
        run_command(index);
      } catch (const Cancelled&) {
        return;
      } catch (const std::exception& error) {
        return fail(index, error.what());
      }
    }
  }

  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void run_command(std::size_t index) {
    const Command& command = commands_[index];
    Lane& lane = *lanes_[command.lane];
    if (command.waits.empty()) lane.progress().wait_for(0);  // throws when another lane has failed
    for (const Wait& wait : command.waits) lanes_[wait.lane]->progress().wait_for(wait.ticket);
    const Context context{.binding = command.binding,
                          .team = lane.team(),
                          .isa = isa_,
                          .gemm = &lane.gemm(),
                          .communicators = communicators_,
                          .lane = command.lane};
    if (!times_.empty()) times_[index].begin = now();
    std::visit([&](const auto& op) { cpu::run(op, context); }, *command.op);
    if (!times_.empty()) times_[index].end = now();
    lane.progress().advance();
  }

  void fail(std::size_t index, const char* what) {
    {
      const std::lock_guard lock(error_mutex_);
      if (error_) return;  // a consequence of the first
      error_.emplace(index, what);
    }
    for (const auto& lane : lanes_) lane->progress().cancel();
    if (communicators_ != nullptr) communicators_->abort_all();
  }

  using Clock = std::chrono::steady_clock;

  std::span<const Command> commands_;
  const std::vector<std::unique_ptr<Lane>>& lanes_;
  Isa isa_;
  CommunicatorSet* communicators_;
  std::span<CommandTime> times_;
  Clock::time_point start_ = Clock::now();
  std::vector<std::vector<std::size_t>> queues_;  ///< indices into commands_, by lane
  std::mutex error_mutex_;
  std::optional<CommandError> error_;
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options) : options_(options) { reserve_lanes(1); }

  std::byte* allocate(Space, std::int64_t bytes) override {
    std::exception_ptr error;
    std::byte* data = nullptr;
    Lane& compute = *lanes_.front();
    compute.start([&] {
      try {
        data = blocks_.emplace_back(bytes, compute.team()).data();
      } catch (...) {
        error = std::current_exception();
      }
    });
    compute.join();
    if (error) std::rethrow_exception(error);
    return data;
  }

  void execute(std::span<const Command> commands, CommunicatorSet* communicators,
               std::span<CommandTime> times) override {
    for (const Command& command : commands) reserve_lanes(command.lane + 1);
    Execution(commands, lanes_, options_.isa, communicators, times).run();
  }

  void upload(const void* from, std::byte* to, std::int64_t bytes) override { std::memcpy(to, from, bytes); }
  void download(const std::byte* from, void* to, std::int64_t bytes) override {
    std::memcpy(to, from, bytes);
  }

 private:
  void reserve_lanes(int count) {
    while (static_cast<int>(lanes_.size()) < count) {
      const bool compute = lanes_.empty();
      lanes_.push_back(std::make_unique<Lane>(Lane::Options{.threads = compute ? team_size(options_) : 1,
                                                            .bind = compute && binds(options_),
                                                            .isa = options_.isa,
                                                            .gemm = options_.gemm}));
    }
  }

  CpuOptions options_;
  std::vector<MappedBlock> blocks_;
  std::vector<std::unique_ptr<Lane>> lanes_;  ///< the first one computes
};

std::string path_for(DType dtype, const CpuOptions& options) {
  const GemmProblem training{.m = 1024, .n = 1024, .k = 1024, .input = dtype, .output = dtype};
  switch (choose_path(training, options.gemm, options.isa)) {
    case GemmPath::onednn:
      return "oneDNN " + OneDnnGemm::version();
    default:
      return fmt::format("titan's own, {}", to_string(options.isa));
  }
}

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  return std::make_unique<CpuBackend>(options);
}

std::string describe_cpu_backend(const CpuOptions& options) {
  return fmt::format(
      "instruction set: {}\n"
      "bf16 GEMM: {}\n"
      "f32 GEMM: {}\n"
      "threads: {} of {} processors{}\n"
      "oneDNN: {}\n"
      "memory available: {:.2f} GiB\n",
      to_string(options.isa), path_for(DType::bf16, options), path_for(DType::f32, options),
      team_size(options), allowed_processors().size(), binds(options) ? ", bound" : "", OneDnnGemm::version(),
      static_cast<double>(available_memory()) / (1 << 30));
}

}  // namespace titan::cpu
