// The part of the CUDA driver API that titan uses, for the host: tensor maps, which say how TMA copies tiles.
// Found instead of the toolkit's header where the CUDA backend is compiled for the host.
#pragma once

#include <cstdint>

using cuuint32_t = std::uint32_t;
using cuuint64_t = std::uint64_t;

enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 };
enum CUtensorMapDataType { CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9 };
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE = 0 };
enum CUtensorMapSwizzle { CU_TENSOR_MAP_SWIZZLE_128B = 3 };
enum CUtensorMapL2promotion {
  CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2,
  CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3
};
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 };  ///< zeros

struct alignas(64) CUtensorMap {
  cuuint64_t opaque[16];
};

extern "C" CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                           void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                                           const cuuint32_t* box, const cuuint32_t* element_strides,
                                           CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                           CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);
