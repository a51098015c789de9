// Small f32 matrix products out of the cache: the one inner loop under all of attention.
#pragma once

#include <stdint.h>

namespace titan::cpu::TITAN_ISA {

/// c [m, n] = a · b, or += when `add`. a is row-major [m, k], b [k, n]; n is a multiple of kWidth.
void matmul(int m, int n, int k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
            int64_t ldc, bool add);
/// The same with a stored as its transpose, [k, m].
void matmul_transposed(int m, int n, int k, const float* a, int64_t lda, const float* b, int64_t ldb,
                       float* c, int64_t ldc, bool add);

}  // namespace titan::cpu::TITAN_ISA
