// A trained model taken out of a checkpoint: to generate text, or to measure its loss.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/trainer/device.h"
#include "engine/model/config.h"
#include "engine/recipe/recipe.h"
#include "kernels/base/dtype.h"

namespace titan {

class Tokenizer;

/// A checkpoint folder ("…/step-100"), a folder of checkpoints, of which the newest is meant, or a Hugging
/// Face folder.
struct TrainedModel {
  std::filesystem::path path;
  std::int64_t step = 0;
  Recipe recipe;
  ModelConfig config;
  std::unique_ptr<Tokenizer> tokenizer;
};

/// Reads what the checkpoint says of itself. `tokenizer` replaces the recipe's when not empty. Throws
/// UserError.
TrainedModel open_trained_model(const std::filesystem::path& checkpoint, const std::string& tokenizer);

struct GenerateOptions {
  std::int64_t max_new_tokens = 100;
  double temperature = 1;  ///< 0: always the most likely token
  std::int64_t top_k = 0;  ///< 0: all
  std::uint64_t seed = 0;
  DType compute = DType::f32;
  DeviceRequest device;
};

struct Generation {
  std::vector<std::int32_t> prompt, output;
  double prefill_seconds = 0, decode_seconds = 0;
};

/// Continues `prompt` until EOS or max_new_tokens. `on_token` sees each new token and the
/// logits it was chosen by. The same seed gives the
/// same tokens.
Generation generate(const TrainedModel& model, const std::string& prompt, const GenerateOptions& options,
                    const std::function<void(std::int32_t token, std::span<const float> logits)>& on_token);

struct Evaluation {
  double loss = 0;  ///< mean natural-log loss of a token
  std::int64_t tokens = 0;
  double seconds = 0;
};

/// Loss over the given text or token shards, in windows of `seq_len` (0: the recipe's).
Evaluation evaluate(const TrainedModel& model, const std::vector<std::string>& data, std::int64_t seq_len,
                    std::int64_t batch, DType compute, const DeviceRequest& device);

}  // namespace titan
