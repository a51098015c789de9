// Small f32 matrix products out of the cache: the one inner loop under all of attention.
#pragma once

#include <stdint.h>

namespace titan::cpu::TITAN_ISA {

/// c [m, n] = a · b. a is row-major [m, k], b [k, n]; n is a multiple of kWidth.
void matmul(int m, int n, int k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
            int64_t ldc);
/// c += a · b.
void matmul_add(int m, int n, int k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                int64_t ldc);
/// c += aᵀ · b with a [k, m].
void matmul_transposed_add(int m, int n, int k, const float* a, int64_t lda, const float* b, int64_t ldb,
                           float* c, int64_t ldc);

}  // namespace titan::cpu::TITAN_ISA
