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

/// The lane whose thread runs a command.
int runner(const Command& command, const CpuOptions& options) {
  return command.on_host && !options.host_thread ? 0 : command.lane;
}

/// By lane; null where no command has been for one.
using Lanes = std::vector<std::unique_ptr<Lane>>;

/// One execution: the commands of each thread, the progress of each lane, and the first error.
class Execution {
 public:
  Execution(std::span<const Command> commands, const Lanes& lanes, const CpuOptions& options,
            CommunicatorSet* communicators, std::span<CommandTime> times)
      : commands_(commands),
        lanes_(lanes),
        options_(options),
        communicators_(communicators),
        times_(times),
        queues_(lanes.size()) {
    TITAN_CHECK(times.empty() || times.size() == commands.size());
    for (std::size_t i = 0; i < commands.size(); ++i) enqueue(i);
    progress_ = std::vector<Progress>(tickets_.size());
  }

  void run() {
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      if (!queues_[i].empty()) lanes_[i]->start([this, i] { run_lane(i); });
    for (const auto& lane : lanes_)
      if (lane != nullptr) lane->join();
    if (error_) throw *error_;
  }

 private:
  /// List order is the meaning: a command may wait only for commands before it, so threads cannot wait in a
  /// circle, also where one thread runs the commands of two lanes.
  void enqueue(std::size_t index) {
    const Command& command = commands_[index];
    const std::size_t lane = static_cast<std::size_t>(command.lane);
    if (tickets_.size() <= lane) tickets_.resize(lane + 1, 0);
    for (const Wait& wait : command.waits) {
      const std::size_t other = static_cast<std::size_t>(wait.lane);
      TITAN_CHECK_LE(wait.ticket, other < tickets_.size() ? tickets_[other] : 0);
    }
    TITAN_CHECK_EQ(command.ticket, ++tickets_[lane]);
    queues_.at(runner(command, options_)).push_back(index);
  }

  void run_lane(std::size_t thread) {
    for (const std::size_t index : queues_[thread]) {
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
    Lane& lane = *lanes_[runner(command, options_)];
    Progress& progress = progress_[command.lane];
    if (command.waits.empty()) progress.wait_for(0);  // throws when another lane has failed
    for (const Wait& wait : command.waits) progress_[wait.lane].wait_for(wait.ticket);
    const Context context{.binding = command.binding,
                          .team = lane.team(),
                          .isa = options_.isa,
                          .gemm = &lane.gemm(),
                          .communicators = communicators_,
                          .lane = command.lane};
    if (!times_.empty()) times_[index].begin = now();
    std::visit([&](const auto& op) { cpu::run(op, context); }, *command.op);
    if (!times_.empty()) times_[index].end = now();
    progress.advance();
  }

  void fail(std::size_t index, const char* what) {
    {
      const std::lock_guard lock(error_mutex_);
      if (error_) return;  // a consequence of the first
      error_.emplace(index, what);
    }
    for (Progress& progress : progress_) progress.cancel();
    if (communicators_ != nullptr) communicators_->abort_all();
  }

  using Clock = std::chrono::steady_clock;

  std::span<const Command> commands_;
  const Lanes& lanes_;
  const CpuOptions& options_;
  CommunicatorSet* communicators_;
  std::span<CommandTime> times_;
  Clock::time_point start_ = Clock::now();
  std::vector<std::vector<std::size_t>> queues_;  ///< indices into commands_, by the lane that runs them
  std::vector<std::int64_t> tickets_;             ///< by lane
  std::vector<Progress> progress_;                ///< by lane
  std::mutex error_mutex_;
  std::optional<CommandError> error_;
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options) : options_(options) { make_lane(0); }

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
    for (const Command& command : commands) make_lane(runner(command, options_));
    Execution(commands, lanes_, options_, communicators, times).run();
  }

  void forget(std::span<const Command>) override {}
  bool host_addressable(Space) const override { return true; }
  void upload(const void* from, std::byte* to, std::int64_t bytes) override { std::memcpy(to, from, bytes); }
  void download(const std::byte* from, void* to, std::int64_t bytes) override {
    std::memcpy(to, from, bytes);
  }

 private:
  void make_lane(int index) {
    const std::size_t lane = static_cast<std::size_t>(index);
    if (lanes_.size() <= lane) lanes_.resize(lane + 1);
    if (lanes_[lane] != nullptr) return;
    const bool compute = index == 0;
    lanes_[lane] = std::make_unique<Lane>(Lane::Options{.threads = compute ? team_size(options_) : 1,
                                                        .bind = compute && binds(options_),
                                                        .isa = options_.isa,
                                                        .gemm = options_.gemm});
  }

  CpuOptions options_;
  std::vector<MappedBlock> blocks_;
  Lanes lanes_;  ///< the first one computes
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
