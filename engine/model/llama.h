// Llama 3.1, written by hand: every kernel of the forward and of the backward, in order. No autograd.
//
// Programs come out naive and correct: activations all kept, parameters whole. Passes (engine/passes,
// parallelism/passes) rewrite them. Values are named after their layer ("layers.3.attn.q"), gradients with
// "d." before it; weights have their Hugging Face name. q|k|v and gate|up are stored side by side, so that
// one GEMM makes them.
#pragma once

#include <cstdint>

#include "engine/mesh/mesh.h"
#include "engine/model/config.h"
#include "engine/program/program.h"

namespace titan {

/// One micro-batch: `sequences` × `seq_len` tokens are the rows of every activation.
struct StepShape {
  std::int64_t sequences = 1, seq_len = 1;
  int micro_batches = 1;
  DType compute = DType::bf16;  ///< activations and GEMM inputs
  std::int64_t loss_chunk =
      0;  ///< tokens of which logits exist at a time; 0: an eighth of the rows, at least 256

  std::int64_t positions = 0;  ///< rows of the RoPE table, the same in all programs of a job; 0: seq_len

  std::int64_t tokens() const { return sequences * seq_len; }
};

/// Segments "forward" and "backward" (which starts with the loss head); the weight-gradient GEMMs have phase
/// weight_grad. Inputs, one a micro-batch, i32 [T, 1]: tokens, targets, positions, doc_start. Inputs of the
/// step: valid_tokens [1, 1] f32 (of the global batch). Output: loss [1, 1] f32.
Program build_train_program(const ModelConfig& config, const StepShape& shape, const Mesh& mesh);

/// Segment "evaluate": forward and loss. Inputs and output as above.
Program build_evaluate_program(const ModelConfig& config, const StepShape& shape, const Mesh& mesh);

/// Segment "generate": `rows` new tokens of one sequence against a key/value cache of `capacity` positions.
/// Inputs i32: tokens, positions, doc_start [rows, 1] (positions < 0: padding), kv_length [1, 1], last_row
/// [1, 1]. Output: logits [1, V] f32 of row last_row.
struct GenerateShape {
  std::int64_t rows = 1, capacity = 1;
  DType compute = DType::bf16;
};
Program build_generate_program(const std::string& name, const ModelConfig& config,
                               const GenerateShape& shape);

}  // namespace titan
