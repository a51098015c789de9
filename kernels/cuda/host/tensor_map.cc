#include "kernels/cuda/host/tensor_map.h"

#include <cuda_runtime.h>

#include <cstring>
#include <string_view>

#include "kernels/cuda/host/async_barrier.h"

namespace titan::cuda::host {
namespace {

constexpr std::uint64_t kSignature = 0x746974616e6d6170;
constexpr int kRank = 3;
constexpr std::size_t kElement = 2, kSwizzleSpan = 128;  ///< bytes

struct Contents {
  std::uint64_t signature;
  const std::byte* address;
  std::uint64_t sizes[kRank], strides[kRank - 1];
  std::uint32_t box[kRank];
};
static_assert(sizeof(Contents) <= sizeof(CUtensorMap));

bool is_multiple(std::uint64_t x, std::uint64_t of) { return x % of == 0; }

/// What the driver documents for cuTensorMapEncodeTiled, as far as it concerns maps of this kind.
bool takes(const Contents& c, std::uint32_t rank, const std::uint32_t* element_strides) {
  if (rank != kRank || c.address == nullptr) return false;
  if (!is_multiple(reinterpret_cast<std::uintptr_t>(c.address), 16)) return false;
  for (int i = 0; i < kRank; ++i)
    if (c.sizes[i] == 0 || c.sizes[i] > std::uint64_t{1} << 32 || c.box[i] == 0 || c.box[i] > 256 ||
        element_strides[i] != 1)
      return false;
  for (const std::uint64_t stride : c.strides)
    if (!is_multiple(stride, 16) || stride >= std::uint64_t{1} << 40) return false;
  return is_multiple(c.box[0] * kElement, 16) && c.box[0] * kElement <= kSwizzleSpan;
}

Contents contents_of(const CUtensorMap& map, Site site) {
  Contents c;
  std::memcpy(&c, &map, sizeof c);
  if (c.signature != kSignature) fail("not a tensor map", site);
  return c;
}

/// Element (0, y, z) of a tensor; null outside of it.
const std::byte* row_at(const Contents& c, std::int64_t y, std::int64_t z) {
  if (y < 0 || z < 0 || y >= static_cast<std::int64_t>(c.sizes[1]) ||
      z >= static_cast<std::int64_t>(c.sizes[2]))
    return nullptr;
  return c.address + static_cast<std::uint64_t>(y) * c.strides[0] +
         static_cast<std::uint64_t>(z) * c.strides[1];
}

void copy_box(const Contents& c, std::int64_t x, std::int64_t y, std::int64_t z, std::byte* to,
              std::uint32_t offset) {
  std::uint32_t at = 0;
  for (std::uint32_t k = 0; k < c.box[2]; ++k)
    for (std::uint32_t j = 0; j < c.box[1]; ++j) {
      const std::byte* const row = row_at(c, y + j, z + k);
      for (std::uint32_t i = 0; i < c.box[0]; ++i, at += kElement) {
        const std::int64_t col = x + i;
        std::byte* const place = to + (swizzled(offset + at) - offset);
        if (row == nullptr || col < 0 || col >= static_cast<std::int64_t>(c.sizes[0]))
          std::memset(place, 0, kElement);
        else
          std::memcpy(place, row + static_cast<std::uint64_t>(col) * kElement, kElement);
      }
    }
}

}  // namespace

void load_box(const CUtensorMap& map, int x, int y, int z, void* to, std::uint64_t* barrier, Site site) {
  const Contents c = contents_of(map, site);
  check_published(barrier, site);
  if (c.box[0] * kElement != kSwizzleSpan) fail("a box whose rows are not 128 bytes", site);
  // The pattern repeats every 1024 bytes: boxes that start there are laid out alike.
  check_aligned(to, 1024, site);
  const std::size_t bytes = std::size_t{c.box[0]} * c.box[1] * c.box[2] * kElement;
  const std::uint32_t offset = shared_offset(to, site);
  std::byte* const place = shared_at(offset, bytes, site);
  std::memset(place, 0xff, bytes);
  begin_background([=] {
    copy_box(c, x, y, z, place, offset);
    complete_bytes(barrier, static_cast<std::uint32_t>(bytes), site);
  });
}

}  // namespace titan::cuda::host

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult* found) {
  const bool known = std::string_view(symbol) == "cuTensorMapEncodeTiled";
  *function = known ? reinterpret_cast<void*>(&cuTensorMapEncodeTiled) : nullptr;
  *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill fill) {
  namespace host = titan::cuda::host;
  if (type != CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
      swizzle != CU_TENSOR_MAP_SWIZZLE_128B || fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE ||
      rank != host::kRank)
    return CUDA_ERROR_INVALID_VALUE;
  host::Contents c;
  c.signature = host::kSignature;
  c.address = static_cast<const std::byte*>(address);
  std::memcpy(c.sizes, sizes, sizeof c.sizes);
  std::memcpy(c.strides, strides, sizeof c.strides);
  std::memcpy(c.box, box, sizeof c.box);
  if (!host::takes(c, rank, element_strides)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(map, &c, sizeof c);
  return CUDA_SUCCESS;
}
