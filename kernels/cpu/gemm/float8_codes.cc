#include "kernels/cpu/gemm/float8_codes.h"

#include <array>

#include "kernels/base/bf16.h"
#include "kernels/base/float8.h"

namespace titan::cpu {
namespace {

using Codes = std::array<std::uint16_t, 256>;

template <class Float8>
Codes make_codes() {
  Codes codes;
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = to_bf16(to_float(Float8{static_cast<std::uint8_t>(i)})).bits;
  return codes;
}

}  // namespace

const std::uint16_t* float8_codes(DType dtype) {
  static const Codes e4m3 = make_codes<f8e4m3>(), e5m2 = make_codes<f8e5m2>();
  return dtype == DType::f8e4m3 ? e4m3.data() : dtype == DType::f8e5m2 ? e5m2.data() : nullptr;
}

}  // namespace titan::cpu
