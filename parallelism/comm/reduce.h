// Reductions over ranks on the host: one fixed order, one rounding.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/base/dtype.h"
#include "kernels/op/axis.h"

namespace titan {

/// y[i] (= or +=) reduction over parts of part[i], i < count; parts in order. f32 and bf16 go through f32 and
/// are rounded once; i32 stays exact. Throws InternalError for other dtypes.
void reduce(std::span<const void* const> parts, DType part_dtype, void* y, DType y_dtype, std::int64_t count,
            Reduction reduction, bool add);

}  // namespace titan
