// The weights of a Llama as values of a program: fused units for the GEMMs, views with Hugging Face names
// inside them.
#pragma once

#include <vector>

#include "engine/model/config.h"
#include "engine/program/builder.h"

namespace titan {

/// A unit of storage that kernels use whole: one parameter, or several stored side by side.
struct Weight {
  ValueId weight = kNoValue;
  ValueId gradient = kNoValue;  ///< f32; none when the program does not train
};

struct BlockWeights {
  Weight input_norm;  ///< [1, D]
  Weight qkv;         ///< [q + k + v rows, D]
  Weight o;           ///< [D, q]
  Weight post_norm;   ///< [1, D]
  Weight gate_up;     ///< [2F, D]
  Weight down;        ///< [D, F]
};

struct Weights {
  Weight embedding, norm, head;  ///< tied: head is the embedding
  std::vector<BlockWeights> blocks;
};

/// Declares all weights (and gradients when training), one instance a step, and enters them in
/// program().parameters.
Weights declare_weights(ProgramBuilder& builder, const ModelConfig& config, DType compute, bool train);

}  // namespace titan
