#include "kernels/cuda/base/tensor_map.h"

#include <cuda_runtime.h>

#include <string>

#include "kernels/cuda/base/check.h"

namespace titan::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

/// Of the driver, which titan is not linked to.
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  constexpr unsigned kSince = 12000;
  TITAN_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kSince, cudaEnableDefault,
                                              &found));
  if (found != cudaDriverEntryPointSuccess || function == nullptr)
    throw CudaError("the driver has no cuTensorMapEncodeTiled: it is older than CUDA 12");
  return reinterpret_cast<Encode>(function);
}

}  // namespace

CUtensorMap make_tensor_map(const TensorRows& rows) {
  static const Encode encode = find_encode();
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(rows.cols), static_cast<cuuint64_t>(rows.rows),
                              static_cast<cuuint64_t>(rows.depth)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(rows.row_bytes),
                                static_cast<cuuint64_t>(rows.depth_bytes)};
  const cuuint32_t box[] = {kBoxCols, static_cast<cuuint32_t>(rows.box_rows), 1},
                   element_strides[] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<void*>(rows.data), sizes, strides, box,
             element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw CudaError("cuTensorMapEncodeTiled refuses rows of " + std::to_string(rows.cols) + " elements, " +
                    std::to_string(rows.row_bytes) + " bytes apart, boxes of " +
                    std::to_string(rows.box_rows) + " rows: error " +
                    std::to_string(static_cast<int>(result)));
  return map;
}

}  // namespace titan::cuda
