// compile: a recipe becomes the programs of one rank. The only place that sees all passes; it reads as a
// table of contents.
//
// Pure: equal recipes on equal ranks give equal programs. What the machine can do comes in as `Machine`,
// never from a clock.
#pragma once

#include <span>

#include "engine/mesh/mesh.h"
#include "engine/model/llama.h"
#include "engine/passes/float8_plan.h"
#include "engine/program/job.h"

namespace titan {

struct Machine;
struct Recipe;

/// Programs "initialize", "refresh" and "train". With metrics.log_parameter_norms also "train_with_norms"
/// (parameter_norms.h), the same step with more outputs. When checkpoints are written in the background each
/// of these two also as "..._staging" (stage_state.h). When validation is enabled, "evaluate". Throws
/// UserError when the recipe cannot run on the mesh (the values and the fix).
Job compile(const Recipe& recipe, const Mesh& mesh, const Machine& machine);

/// Programs "initialize", "refresh" and "evaluate": loss of given tokens under given weights.
Job compile_evaluation(const ModelConfig& config, const StepShape& shape, const Mesh& mesh);

/// Programs "initialize", "refresh", "prefill" (64 tokens at a time) and "decode" (one), over one key/value
/// cache.
Job compile_generation(const ModelConfig& config, std::int64_t capacity, DType compute);
inline constexpr std::int64_t kPrefillRows = 64;

/// What Float8 does to each linear layer of the training program; empty when the recipe converts to none.
std::vector<Float8Linear> float8_linears(const Recipe& recipe, const Mesh& mesh);

/// The micro-batch a recipe asks for on this mesh. Throws UserError when the batch sizes do not divide.
StepShape training_shape(const Recipe& recipe, const Mesh& mesh);

/// Checks the programs of several ranks against each other: on every lane, collectives agree in order, kind
/// and size, and, run in lock-step with rendezvous sends, none waits for ever. `axis_peers(rank, axis)` names
/// the ranks of a rank's group in axis order. Throws InternalError with the nodes that disagree or the cycle
/// that waits.
void verify_all(std::span<const Program* const> programs,
                FunctionRef<std::vector<int>(int rank, Axis axis)> axis_peers);

}  // namespace titan
