// 8-bit floats as bf16, which holds all of them exactly.
#pragma once

#include <cstdint>

#include "kernels/base/dtype.h"

namespace titan::cpu {

/// The bits of the bf16 that each of the 256 codes stands for; null for any other dtype.
const std::uint16_t* float8_codes(DType dtype);

}  // namespace titan::cpu
