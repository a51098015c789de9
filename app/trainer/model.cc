#include "app/trainer/model.h"

#include <algorithm>
#include <limits>

#include "app/trainer/convert.h"
#include "app/trainer/run_data.h"
#include "app/trainer/sampler.h"
#include "app/trainer/session.h"
#include "app/trainer/state.h"
#include "engine/checkpoint/catalog.h"
#include "engine/checkpoint/load.h"
#include "engine/data/prepare.h"
#include "engine/data/token_dataset.h"
#include "engine/data/validation_set.h"
#include "engine/huggingface/import.h"
#include "engine/metrics/clock.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/base/error.h"
#include "parallelism/compile.h"

namespace titan {
namespace {

void load_weights(const TrainedModel& model, Session& session) {
  const std::vector<WantedTensor> wanted = wanted_state(session.job(), session.executor());
  if (is_foreign_model(model.path))
    ForeignModel(model.path).load(wanted);
  else
    load_checkpoint(model.path, wanted);
  session.refresh();
}

/// A titan checkpoint, or the newest in a folder of them.
void open_checkpoint(const std::filesystem::path& checkpoint, TrainedModel& model) {
  model.path = newest_checkpoint(checkpoint);
  const Manifest manifest = read_manifest(model.path);
  model.step = manifest.run.step;
  model.recipe = parse_recipe(manifest.run.recipe, (model.path / kManifestName).string() + ": recipe");
}

/// One program of a generation job: feeds tokens, returns logits of the last one.
class Feeder {
 public:
  Feeder(Session& session, const char* program, std::int64_t rows)
      : executor_(session.executor()),
        index_(session.job().index(program)),
        program_(session.job().program(program)),
        rows_(rows) {}

  std::int64_t rows() const { return rows_; }

  /// `tokens` (at most rows) follow the first `position` tokens of the sequence.
  void feed(std::span<const std::int32_t> tokens, std::int64_t position, std::vector<float>& logits) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(rows_), 0), positions(ids.size(), -1);
    const std::vector<std::int32_t> doc_start(ids.size(), 0);
    std::copy(tokens.begin(), tokens.end(), ids.begin());
    for (std::size_t i = 0; i < tokens.size(); ++i)
      positions[i] = static_cast<std::int32_t>(position) + static_cast<std::int32_t>(i);
    const auto length = static_cast<std::int32_t>(position + static_cast<std::int64_t>(tokens.size()));
    const auto last = static_cast<std::int32_t>(tokens.size()) - 1;
    executor_.write(index_, program_.at("tokens"), ids.data());
    executor_.write(index_, program_.at("positions"), positions.data());
    executor_.write(index_, program_.at("doc_start"), doc_start.data());
    executor_.write(index_, program_.at("kv_length"), &length);
    executor_.write(index_, program_.at("last_row"), &last);
    executor_.run(index_);
    executor_.read(index_, program_.at("logits"), logits.data());
  }

 private:
  Executor& executor_;
  int index_;
  const Program& program_;
  std::int64_t rows_;
};

}  // namespace

TrainedModel open_trained_model(const std::filesystem::path& checkpoint, const std::string& tokenizer) {
  TrainedModel model;
  model.path = checkpoint;
  if (is_foreign_model(checkpoint)) {
    model.recipe = foreign_recipe(ForeignModel(checkpoint));
  } else {
    open_checkpoint(checkpoint, model);
  }
  model.config = model_config(model.recipe);
  if (!tokenizer.empty()) model.recipe.model.tokenizer = tokenizer;
  model.tokenizer = recipe_tokenizer(model.recipe);
  check_vocabulary(*model.tokenizer, model.config);
  return model;
}

Generation generate(const TrainedModel& model, const std::string& prompt, const GenerateOptions& options,
                    const std::function<void(std::int32_t, std::span<const float>)>& on_token) {
  Generation result;
  if (const auto bos = model.tokenizer->bos()) result.prompt.push_back(*bos);
  model.tokenizer->encode(prompt, result.prompt);
  if (result.prompt.empty())
    throw UserError("the prompt is empty and the tokenizer has no BOS token; give --prompt some text");
  const auto prompt_length = static_cast<std::int64_t>(result.prompt.size());
  const std::int64_t capacity = prompt_length + options.max_new_tokens;
  Session session(compile_generation(model.config, capacity, options.compute), options.device);
  load_weights(model, session);

  std::vector<float> logits(static_cast<std::size_t>(model.config.vocab_size));
  Feeder prefill(session, "prefill", kPrefillRows), decode(session, "decode", 1);
  const double start = steady_seconds();
  for (std::int64_t at = 0; at < prompt_length; at += kPrefillRows)
    prefill.feed(std::span(result.prompt)
                     .subspan(static_cast<std::size_t>(at),
                              static_cast<std::size_t>(std::min(kPrefillRows, prompt_length - at))),
                 at, logits);
  result.prefill_seconds = steady_seconds() - start;
  // Rows beyond the tokenizer's ids are never trained: they are not in the running.
  const std::span<const float> live =
      std::span(logits).first(static_cast<std::size_t>(model.tokenizer->vocab_size()));
  for (std::int64_t n = 0; n < options.max_new_tokens; ++n) {
    const std::int32_t token = sample(live, options.temperature, options.top_k, options.seed, n);
    if (token == model.tokenizer->eos()) break;
    result.output.push_back(token);
    on_token(token, logits);
    if (n + 1 < options.max_new_tokens) decode.feed(std::span(&token, 1), prompt_length + n, logits);
  }
  result.decode_seconds = steady_seconds() - start - result.prefill_seconds;
  return result;
}

Evaluation evaluate(const TrainedModel& model, const std::vector<std::string>& data, std::int64_t seq_len,
                    std::int64_t batch, DType compute, const DeviceRequest& device) {
  const std::int64_t length = seq_len > 0 ? seq_len : model.recipe.training.seq_len;
  const PreparedData prepared = prepare_data(
      data, *model.tokenizer,
      {.cache_dir = data_cache(model.recipe), .threads = std::max(1, device.threads), .progress = {}});
  const TokenDataset dataset(prepared.shards, length, model.recipe.training.document_mask);
  const ValidationSet windows({{&dataset, dataset.all()}}, 0, 1, {.rows = batch}, -1);
  Session session(
      compile_evaluation(model.config, {.sequences = batch, .seq_len = length, .compute = compute}, Mesh()),
      device);
  load_weights(model, session);

  const int index = session.job().index("evaluate");
  const Program& program = session.job().program("evaluate");
  Executor& executor = session.executor();
  Evaluation result;
  double sum = 0;
  const double start = steady_seconds();
  for (std::int64_t s = 0; s < windows.steps(); ++s) {
    const Batch b = windows.batch(s);
    const MicroBatch& rows = b.micro_batches.front();
    executor.write(index, program.at("tokens"), rows.tokens.data());
    executor.write(index, program.at("targets"), rows.labels.data());
    executor.write(index, program.at("positions"), rows.positions.data());
    executor.write(index, program.at("doc_start"), rows.doc_start.data());
    const float one = 1;
    executor.write(index, program.at("valid_tokens"), &one);
    executor.run(index);
    float loss = 0;
    executor.read(index, program.at("loss"), &loss);
    sum += loss;
    result.tokens += b.valid_tokens;
  }
  result.seconds = steady_seconds() - start;
  result.loss = sum / static_cast<double>(std::max<std::int64_t>(1, result.tokens));
  return result;
}

}  // namespace titan
