// Which products the host's cuBLASLt takes, and by which algorithms. They differ in what alignment they need,
// in how many pieces they cut the sum and where the pieces' sums go: so in their bits.
#pragma once

#include <optional>

#include "kernels/cuda/host/lt_descriptors.h"

namespace titan::cuda::host {

/// The layouts of one product, D = alpha·op(A)·op(B) + beta·C.
struct Layouts {
  const cublasLtMatrixLayoutOpaque_t *a, *b, *c, *d;
  const cublasLtMatrixLayoutOpaque_t* operator[](int i) const {
    const cublasLtMatrixLayoutOpaque_t* const all[] = {a, b, c, d};
    return all[i];
  }
};

struct Algorithm {
  std::int32_t id;
  std::uint32_t tile;
  std::int32_t splits;           ///< pieces of the sum
  std::uint32_t scheme;          ///< cublasLtReductionScheme_t
  std::int64_t alignment_bytes;  ///< of every column of every matrix
};

bool is_float8(const cublasLtMatrixLayoutOpaque_t& layout);
/// Rows, columns and length of the sums.
std::int64_t rows(const Layouts& layouts);
std::int64_t cols(const Layouts& layouts);
std::int64_t depth(const cublasLtMatmulDescOpaque_t& desc, const Layouts& layouts);

/// Whether a Hopper GPU takes the product at all, in some memory.
cublasStatus_t check_product(const cublasLtMatmulDescOpaque_t* desc, const Layouts& layouts);
/// Bytes that pointers to A, B, C and D must be multiples of whatever the algorithm.
std::int64_t pointer_alignment(const Layouts& layouts, int matrix);

/// What the library's bytes stand for; none when they are not its own.
std::optional<Algorithm> decode(const cublasLtMatmulAlgo_t& algo);
/// Whether `algorithm` can compute the product; `workspace`: bytes that it needs.
cublasStatus_t check_algorithm(const Algorithm& algorithm, const cublasLtMatmulDescOpaque_t& desc,
                               const Layouts& layouts, std::size_t& workspace);

}  // namespace titan::cuda::host
