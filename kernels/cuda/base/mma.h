// Tensor-core building blocks: products of bf16 fragments in a warp's registers, loads of fragments from
// shared memory, and copies from global to shared memory that run in the background. PTX on the device
// (sm_80 and later), kernels/cuda/host on the host. Fragments: kernels/cuda/host/matrix.h.
#pragma once

#include "kernels/cuda/dialect.h"

#ifndef __CUDACC__
#include "kernels/cuda/host/matrix.h"
#endif

namespace titan::cuda {

#ifdef __CUDACC__

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

/// Starts to copy 16 bytes, both sides aligned to them; zeros when !valid, and `from` is not read.
__device__ __forceinline__ void copy_async(void* to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}
/// Ends a group of this thread's copies.
__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for all groups of this thread but the last kPending. Others see the copies after a barrier.
template <int kPending>
__device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Four 8×8 matrices of 16-bit elements; lanes 8·i .. 8·i + 7 name the rows of matrix i.
__device__ __forceinline__ void load_matrices(unsigned (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(unsigned (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

/// d [16×8, f32] += a [16×16] · b [16×8].
__device__ __forceinline__ void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else

inline void copy_async(void* to, const void* from, bool valid, host::Site site = host::Site::current()) {
  host::check_aligned(to, host::AsyncCopies::kBytes, site);
  host::check_aligned(from, host::AsyncCopies::kBytes, site);
  host::async_copies().begin(to, valid ? from : nullptr);
}
inline void copy_async_commit() { host::async_copies().commit(); }
template <int kPending>
void copy_async_wait() {
  host::async_copies().wait(kPending);
}

inline void load_matrices(unsigned (&r)[4], const void* row, host::Site site = host::Site::current()) {
  host::load_matrices(r, row, false, site);
}
inline void load_matrices_transposed(unsigned (&r)[4], const void* row,
                                     host::Site site = host::Site::current()) {
  host::load_matrices(r, row, true, site);
}
inline void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                         host::Site site = host::Site::current()) {
  host::multiply_add(d, a, b, site);
}

#endif

}  // namespace titan::cuda
