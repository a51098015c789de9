// GemmEngine: what a lane keeps between GEMMs (cached primitives, packing buffers), and the choice of how to
// compute one.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/base/isa.h"
#include "kernels/cpu/gemm/gemm_problem.h"
#include "kernels/cpu/gemm/packed_gemm.h"

namespace titan::cpu {

class OneDnnGemm;

/// `automatic` is the measured choice; the others force one library (tests, comparisons).
enum class GemmChoice { automatic, onednn, own };

/// TITAN_CPU_GEMM=automatic|onednn|own in the environment (comparisons); unset: automatic. Anything else is a
/// UserError.
GemmChoice asked_gemm_choice();

/// dots: few rows against row-major weights, limited by reading them; packed: titan's own; onednn: oneDNN
/// matmul.
enum class GemmPath { dots, packed, onednn };
const char* to_string(GemmPath path);

/// A pure function of shape and machine, so that a run never changes its numbers by timing. 8-bit floats are
/// multiplied by titan's own GEMM, whatever is asked for: oneDNN 2.6 knows none.
GemmPath choose_path(const GemmProblem& problem, GemmChoice choice, Isa isa);

class GemmEngine {
 public:
  explicit GemmEngine(Isa isa, GemmChoice choice = GemmChoice::automatic);
  ~GemmEngine();

  void multiply(const GemmProblem& problem, const Team& team, void* workspace = nullptr,
                std::int64_t workspace_bytes = 0);
  /// The scratchpad multiply() can take from its caller; 0 on titan's own paths.
  std::int64_t workspace_bytes(const GemmProblem& problem);
  /// Memory the engine holds itself.
  std::int64_t buffer_bytes() const;

 private:
  GemmPath path(const GemmProblem& problem) const;
  OneDnnGemm& onednn();
  void multiply_dots(const GemmProblem& problem, const Team& team) const;

  Isa isa_;
  GemmChoice choice_;
  PackedGemm packed_;
  std::unique_ptr<OneDnnGemm> onednn_;  ///< made when first needed
};

}  // namespace titan::cpu
