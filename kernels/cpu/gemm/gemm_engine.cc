#include "kernels/cpu/gemm/gemm_engine.h"

#include <cstdlib>
#include <string_view>

#include "kernels/base/error.h"
#include "kernels/cpu/base/team.h"
#include "kernels/cpu/gemm/gemm_kernels.h"
#include "kernels/cpu/gemm/onednn_gemm.h"

namespace titan::cpu {
namespace {

constexpr std::int64_t kFewRows = 8;  ///< up to here packing the weights costs more than it saves

}  // namespace

const char* to_string(GemmPath path) {
  constexpr const char* kNames[] = {"dots", "packed", "onednn"};
  return kNames[static_cast<int>(path)];
}

GemmChoice asked_gemm_choice() {
  const char* asked = std::getenv("TITAN_CPU_GEMM");
  const std::string_view text = asked == nullptr ? "" : asked;
  if (text.empty() || text == "automatic") return GemmChoice::automatic;
  if (text == "onednn") return GemmChoice::onednn;
  if (text == "own") return GemmChoice::own;
  throw UserError(fmt::format("TITAN_CPU_GEMM is '{}'; use automatic, onednn or own, or unset it", text));
}

const DotKernels& dot_kernels(Isa isa) { return choose(isa, baseline::kDots, avx2::kDots, avx512::kDots); }

GemmPath choose_path(const GemmProblem& p, GemmChoice choice, Isa isa) {
  if (p.a.codes != nullptr) return GemmPath::packed;
  if (choice == GemmChoice::onednn) return GemmPath::onednn;
  if (p.m <= kFewRows && !p.a.transposed && p.b.transposed) return GemmPath::dots;
  if (choice == GemmChoice::automatic && p.input == DType::bf16 && isa == Isa::amx) return GemmPath::onednn;
  return GemmPath::packed;
}

GemmEngine::GemmEngine(Isa isa, GemmChoice choice) : isa_(isa), choice_(choice), packed_(isa) {}
GemmEngine::~GemmEngine() = default;

GemmPath GemmEngine::path(const GemmProblem& problem) const { return choose_path(problem, choice_, isa_); }

OneDnnGemm& GemmEngine::onednn() {
  if (!onednn_) onednn_ = std::make_unique<OneDnnGemm>();
  return *onednn_;
}

void GemmEngine::multiply(const GemmProblem& problem, const Team& team, void* workspace,
                          std::int64_t workspace_bytes) {
  switch (path(problem)) {
    case GemmPath::dots:
      return multiply_dots(problem, team);
    case GemmPath::packed:
      return packed_.multiply(problem, team);
    case GemmPath::onednn:
      return onednn().multiply(problem, workspace, workspace_bytes);
  }
}

void GemmEngine::multiply_dots(const GemmProblem& p, const Team& team) const {
  const DotKernels& kernels = dot_kernels(isa_);
  const auto dots = p.input == DType::f32    ? kernels.f32_f32
                    : p.output == DType::f32 ? kernels.bf16_f32
                                             : kernels.bf16_bf16;
  constexpr std::int64_t kGrain = 32;  // columns of c: their rows of b are read together
  team.parallel_for(p.n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    dots(p.m, end - begin, p.k, p.a.data, p.a.pitch,
         static_cast<const std::byte*>(p.b.data) + begin * p.b.pitch * size_of(p.input), p.b.pitch,
         static_cast<std::byte*>(p.c) + begin * size_of(p.output), p.c_pitch, p.add);
  });
}

std::int64_t GemmEngine::workspace_bytes(const GemmProblem& problem) {
  return path(problem) == GemmPath::onednn ? onednn().workspace_bytes(problem) : 0;
}

std::int64_t GemmEngine::buffer_bytes() const {
  return packed_.buffer_bytes() + (onednn_ ? onednn_->buffer_bytes() : 0);
}

}  // namespace titan::cpu
