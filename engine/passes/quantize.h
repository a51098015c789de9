// quantize: Float8 training. Rewrites the products of linear layers (forward, input gradient, weight
// gradient) into products of 8-bit floats, and inserts what makes those: where one scale serves a whole
// matrix, its Amax, and Quantize, which writes a matrix and its transpose at once because 8-bit products take
// one layout only. An operation that writes the matrix finds its amax, or writes its rows in 8 bits, if it
// can.
//
// Runs right after the builder, before recompute, which may then keep 8-bit activations instead of bf16
// ones. Weights are quantized once a step, in segment "quantize" in front of all others, or per use. Only
// forward products ask for fast accumulation.
//
// Weights that lie side by side (q|k|v, gate|up) are one matrix with one scale, unless filters treat them
// differently: the product is then split where the treatment changes, and the parts' input gradients are
// added up in the compute dtype.
#pragma once

#include "engine/passes/float8_plan.h"

namespace titan {

/// `linears`: plan_float8 of this program and recipe. Activations must be bf16.
Program quantize(Program program, const std::vector<Float8Linear>& linears, const Float8Recipe& recipe);

}  // namespace titan
