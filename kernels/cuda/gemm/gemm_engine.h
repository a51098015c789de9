// Matrix products by cuBLASLt: a plan for each kind of product, made when it is first seen.
//
// The algorithm is, in this order: the one in the table that the engine was given; the fastest of some by
// measurement, if asked for; the first that cuBLASLt's heuristic names, a function of key, library and
// device. The last two are added to table(). All algorithms sum in f32 and repeat their bits. f32 products
// are exact f32 products: never TF32, which has 10 fraction bits.
//
// For one host thread, the one that enqueues. Products of different streams need different workspaces.
#pragma once

#include <map>

#include "kernels/cuda/gemm/gemm_plan.h"
#include "kernels/cuda/gemm/gemm_table.h"
#include "kernels/cuda/gemm/gemm_tuning.h"

namespace titan::cuda {

struct GemmOptions {
  /// That products are meant to use; 0: all. Fewer leave some to kernels of other streams.
  int multiprocessors = 0;
  /// Measure when a product is first seen, unless its stream captures. That waits for the device, and takes
  /// memory as large as c for products that add to it; without such memory the heuristic decides.
  bool measure = false;
  int candidates = 8, repeats = 5;
  Stopwatch stopwatch = time_in_stream;
};

class GemmEngine {
 public:
  /// For the current device. Throws UserError when `table`, unless empty, is from another device or version.
  explicit GemmEngine(GemmOptions options = {}, GemmTable table = {});

  /// Enqueues the product; key.multiprocessors is the engine's. No size may be 0. Throws UserError when the
  /// device has no such products: of 8-bit floats before compute capability 8.9, scaled by rows but on 9.0.
  void multiply(GemmKey key, const GemmData& data, cudaStream_t stream);

  /// What was given, and what has been chosen since.
  const GemmTable& table() const { return table_; }
  std::size_t plans() const { return plans_.size(); }

  /// A table without algorithms, with the names of the current device and library.
  static GemmTable empty_table();

 private:
  void check_device(const GemmKey& key) const;
  GemmPlan make_plan(const GemmKey& key, const GemmData& data, cudaStream_t stream);
  GemmAlgorithm choose(GemmPlan& plan, const GemmData& data, cudaStream_t stream);
  GemmAlgorithm measure(GemmPlan& plan, GemmData data, cudaStream_t stream);

  GemmOptions options_;
  GemmTable table_;
  int compute_capability_ = 0;
  LtLibrary library_;
  std::map<GemmKey, GemmPlan> plans_;
};

}  // namespace titan::cuda
