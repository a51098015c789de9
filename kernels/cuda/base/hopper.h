// What Hopper (sm_90a) has for kernels whose warp groups work side by side: barriers in shared memory that
// count arrivals and bytes, copies of tiles by TMA, products by warp groups (wgmma), registers given from one
// group to another. PTX on the device, kernels/cuda/host on the host. Code for other architectures must not
// call it.
//
// Sources: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", "mbarrier", "cp.async.bulk.tensor".
#pragma once

#include "kernels/cuda/base/mma.h"
#include "kernels/cuda/base/tensor_map.h"

#ifndef __CUDACC__
#include "kernels/cuda/host/async_barrier.h"
#include "kernels/cuda/host/block_resources.h"
#include "kernels/cuda/host/tensor_map.h"
#include "kernels/cuda/host/warp_group.h"
#endif

namespace titan::cuda {

/// Whether the compiler is at work for sm_90a, or the host that plays it. Kernels must not run otherwise.
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool kOnHopper = true;
#else
inline constexpr bool kOnHopper = false;
#endif

inline constexpr int kWarpGroup = 128;  ///< threads
/// Tiles in shared memory that descriptors name start at multiples of this.
inline constexpr std::size_t kSwizzleBytes = 1024;

/// A tile of rows of 64 bf16, 128 bytes each with a 128-byte swizzle, as TMA writes it: a factor whose rows
/// are summed over, 16 columns of it at a time from `tile` + 32 bytes · step. The fields of the descriptor:
/// address (14 bits), leading and stride offset in units of 16 bytes at bits 16 and 32, 1 at bit 62 for the
/// swizzle.
__device__ __forceinline__ std::uint64_t descriptor(unsigned address, unsigned leading, unsigned stride) {
  return std::uint64_t{(address & 0x3ffffu) >> 4} | std::uint64_t{leading >> 4} << 16 |
         std::uint64_t{stride >> 4} << 32 | std::uint64_t{1} << 62;
}

#ifdef __CUDACC__

__device__ __forceinline__ void init_barrier(std::uint64_t* barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
}
/// After the last init_barrier, before other threads and TMA use them.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void arrive(std::uint64_t* barrier) {
  asm volatile(
      "{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(shared_address(barrier))
      : "memory");
}
__device__ __forceinline__ void arrive_expecting(std::uint64_t* barrier, unsigned bytes) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(
                   shared_address(barrier)),
               "r"(bytes)
               : "memory");
}
/// Waits until the phase of this parity is complete.
__device__ __forceinline__ void wait_parity(std::uint64_t* barrier, unsigned parity) {
  unsigned done;
  do {
    asm volatile(
        "{\n.reg .pred complete;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  } while (done == 0);
}

/// Starts to copy the box at (x, y, z), by one thread; its bytes arrive at the barrier.
__device__ __forceinline__ void load_box(const CUtensorMap& map, int x, int y, int z, void* to,
                                         std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
      "%4}], [%5];" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier))
      : "memory");
}

__device__ __forceinline__ unsigned descriptor_address(const void* p) { return shared_address(p); }

/// Registers of each thread from now on, by whole warp groups.
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// All threads of the warp group wait for each other; number: the group's, at least 1.
__device__ __forceinline__ void group_barrier(int number) {
  asm volatile("bar.sync %0, 128;" ::"r"(number) : "memory");
}
/// Before the first product of a group: registers are ready.
__device__ __forceinline__ void fence_group() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Ends a group of products.
__device__ __forceinline__ void commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits for all groups but the last kPending.
template <int kPending>
__device__ __forceinline__ void wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Registers of products that a wait_group has ended, sums or factors: the compiler does not know that they
/// come, or are free, only then, and must not move what reads or writes them before it.
template <int kTiles>
__device__ __forceinline__ void arrived(float (&d)[kTiles][4]) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
    asm volatile("" : "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])::"memory");
}
template <int kTiles>
__device__ __forceinline__ void arrived(unsigned (&a)[kTiles][4]) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
    asm volatile("" : "+r"(a[n][0]), "+r"(a[n][1]), "+r"(a[n][2]), "+r"(a[n][3])::"memory");
}

/// Ends the kernel with an error.
__device__ __forceinline__ void trap() { asm volatile("trap;"); }

#define TITAN_SUMS_4(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define TITAN_SUMS_16(i) TITAN_SUMS_4(i), TITAN_SUMS_4(i + 1), TITAN_SUMS_4(i + 2), TITAN_SUMS_4(i + 3)
#define TITAN_SUMS_32(i) TITAN_SUMS_16(i), TITAN_SUMS_16(i + 4)
#define TITAN_SUMS_64 TITAN_SUMS_32(0), TITAN_SUMS_32(8)

/// d [64 × 8·N, f32] = a · bᵀ, or += where it accumulates: 16 columns of a [64 rows] and b [8·N rows], by
/// descriptor. Starts; d is there after wait_group. Thread 32·w + l of the group holds what lane l of
/// mma.m16n8k16 does of rows 16·w.. and columns 8·n.. .
__device__ __forceinline__ void multiply_group(float (&d)[16][4], std::uint64_t a, std::uint64_t b,
                                               bool accumulate) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.u32 adds, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
      "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "
      "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
      "%62, %63}, %64, %65, adds, 1, 1, 0, 0;\n}"
      : TITAN_SUMS_64
      : "l"(a), "l"(b), "r"(static_cast<unsigned>(accumulate)));
}

__device__ __forceinline__ void multiply_group(float (&d)[8][4], std::uint64_t a, std::uint64_t b,
                                               bool accumulate) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.u32 adds, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
      "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, adds, 1, 1, 0, 0;\n}"
      : TITAN_SUMS_32(0)
      : "l"(a), "l"(b), "r"(static_cast<unsigned>(accumulate)));
}

/// d += a · b: a in registers as mma.m16n8k16 has it (rows 16·w.. of the warp), b 16 rows of 8·N columns.
/// Neither may change before wait_group.
__device__ __forceinline__ void multiply_group(float (&d)[16][4], const unsigned (&a)[4], std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
      "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "
      "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
      "%62, %63}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
      : TITAN_SUMS_64
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void multiply_group(float (&d)[8][4], const unsigned (&a)[4], std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
      "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
      : TITAN_SUMS_32(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#undef TITAN_SUMS_4
#undef TITAN_SUMS_16
#undef TITAN_SUMS_32
#undef TITAN_SUMS_64

#else

inline void init_barrier(std::uint64_t* barrier, unsigned arrivals, host::Site site = host::Site::current()) {
  host::init_barrier(barrier, arrivals, site);
}
inline void publish_barriers() { host::publish_barriers(); }
inline void arrive(std::uint64_t* barrier, host::Site site = host::Site::current()) {
  host::arrive(barrier, site);
}
inline void arrive_expecting(std::uint64_t* barrier, unsigned bytes,
                             host::Site site = host::Site::current()) {
  host::arrive_expecting(barrier, bytes, site);
}
inline void wait_parity(std::uint64_t* barrier, unsigned parity, host::Site site = host::Site::current()) {
  host::wait_parity(barrier, parity, site);
}
inline void load_box(const CUtensorMap& map, int x, int y, int z, void* to, std::uint64_t* barrier,
                     host::Site site = host::Site::current()) {
  host::load_box(map, x, y, z, to, barrier, site);
}
inline unsigned descriptor_address(const void* p, host::Site site = host::Site::current()) {
  return host::shared_offset(p, site);
}

template <int kRegisters>
void take_registers(host::Site site = host::Site::current()) {
  host::set_registers(kRegisters, true, site);
}
template <int kRegisters>
void give_registers(host::Site site = host::Site::current()) {
  host::set_registers(kRegisters, false, site);
}

inline void group_barrier(int number, host::Site site = host::Site::current()) {
  host::numbered_barrier(number, kWarpGroup, site);
}
inline void fence_group(host::Site site = host::Site::current()) { host::fence_group(site); }
inline void commit_group(host::Site site = host::Site::current()) { host::commit_group(site); }
template <int kPending>
void wait_group(host::Site site = host::Site::current()) {
  host::wait_group(kPending, site);
}
template <class T, int kTiles>
void arrived(T (&)[kTiles][4]) {}
inline void trap(host::Site site = host::Site::current()) {
  host::fail("a kernel for Hopper runs elsewhere", site);
}
template <int kTiles>
void multiply_group(float (&d)[kTiles][4], std::uint64_t a, std::uint64_t b, bool accumulate,
                    host::Site site = host::Site::current()) {
  host::multiply_group(&d[0][0], 8 * kTiles, {nullptr, a, b, false, accumulate}, site);
}
template <int kTiles>
void multiply_group(float (&d)[kTiles][4], const unsigned (&a)[4], std::uint64_t b,
                    host::Site site = host::Site::current()) {
  host::multiply_group(&d[0][0], 8 * kTiles, {a, 0, b, true, true}, site);
}

#endif

}  // namespace titan::cuda
