// Which algorithm each product runs, to be kept with a run: one that goes on later takes the same algorithms,
// and so computes the same bits.
//
// As text, one product a line:
//   titan gemm table 1
//   device NVIDIA H200
//   cublaslt 130100
//   m n k a b c ... = algorithm                              the columns' names (gemm_key.h)
//   8192 4096 1024 bf16 bf16 f32 ... = 00000000000a0042 ...  8 words that only that version of cuBLASLt reads
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "kernels/cuda/gemm/gemm_key.h"

namespace titan::cuda {

/// cublasLtMatmulAlgo_t.
using GemmAlgorithm = std::array<std::uint64_t, 8>;

struct GemmTable {
  std::string device;  ///< name of the GPU
  std::uint64_t cublaslt_version = 0;
  std::map<GemmKey, GemmAlgorithm> algorithms;

  /// Whether this table's algorithms mean the same to `other`'s device and library.
  bool made_like(const GemmTable& other) const {
    return device == other.device && cublaslt_version == other.cublaslt_version;
  }
  bool operator==(const GemmTable&) const = default;
};

std::string to_text(const GemmTable& table);
/// Throws UserError; `name` says in messages where the text is from.
GemmTable parse_gemm_table(std::string_view text, std::string_view name);

/// The file is replaced as a whole. Both throw UserError.
void save(const GemmTable& table, const std::filesystem::path& path);
GemmTable load_gemm_table(const std::filesystem::path& path);

}  // namespace titan::cuda
