#include "tests/kernels/cpu/ops/cpu_runner.h"

#include <cstdlib>
#include <cstring>

#include "kernels/base/error.h"
#include "kernels/cpu/base/processors.h"
#include "kernels/cpu/base/run.h"
#include "kernels/cpu/base/team.h"
#include "kernels/cpu/gemm/gemm_engine.h"

namespace titan::op_test {
namespace {

class CpuRunner final : public Runner {
 public:
  CpuRunner(cpu::Isa isa, std::vector<int> threads)
      : isa_(isa), threads_(std::move(threads)), gemm_(isa, cpu::asked_gemm_choice()) {}

  std::string name() const override { return cpu::to_string(isa_); }
  std::vector<std::string> modes() const override {
    std::vector<std::string> modes;
    for (const int threads : threads_) modes.push_back(fmt::format("{} threads", threads));
    return modes;
  }
  bool multiplies_bf16() const override { return isa_ >= cpu::Isa::avx512_bf16; }

  void run(const Op& op, const Binding& binding, int mode) override {
    const cpu::Team team(threads_.at(static_cast<std::size_t>(mode)));
    cpu::flush_subnormals();
    const cpu::Context context{.binding = binding, .team = team, .isa = isa_, .gemm = &gemm_};
    std::visit([&](const auto& o) { cpu::run(o, context); }, op);
  }

  std::byte* allocate(std::size_t bytes) override {
    return static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
  }
  void free(std::byte* p) override { std::free(p); }
  void upload(const std::byte* from, std::byte* to, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void download(const std::byte* from, std::byte* to, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }

 private:
  cpu::Isa isa_;
  std::vector<int> threads_;
  cpu::GemmEngine gemm_;
};

}  // namespace

std::unique_ptr<Runner> make_cpu_runner(cpu::Isa isa, std::vector<int> threads) {
  return std::make_unique<CpuRunner>(isa, std::move(threads));
}

}  // namespace titan::op_test
