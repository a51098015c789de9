// A checkpoint folder: the content of its titan.json and, after a NUL, the bytes of its first file.
#include <nlohmann/json.hpp>

#include "engine/checkpoint/catalog.h"
#include "engine/checkpoint/load.h"
#include "engine/checkpoint/report.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/sealed_manifest.h"

using namespace titan;
using namespace titan::fuzz;
namespace fs = std::filesystem;

namespace {

constexpr const char* kDataFile = "step-3/rank-0.safetensors";
constexpr float kUntouched = 77;

void load(const fs::path& checkpoint) {
  std::vector<float> vector(4, kUntouched), matrix(6, kUntouched);
  const std::vector<WantedTensor> wanted{
      {whole_piece("norm", {4}), StateKind::parameter, vector.data()},
      {box_piece("table", {4, 3}, {{1, 0}, {2, 3}}), StateKind::parameter, matrix.data()},
      {box_piece("table", {4, 3}, {{1, 0}, {2, 3}}), StateKind::exp_avg, matrix.data()}};
  LoadOptions options;
  options.threads = 1;
  for (const bool optimizer : {true, false}) {
    options.parts.optimizer = optimizer;
    accepted([&] { load_checkpoint(checkpoint, wanted, options); });
  }
  options.model_parameters = {"norm", "table"};
  options.check_only = true;
  accepted([&] { load_checkpoint(checkpoint, wanted, options); });
}

void use(std::string_view manifest, std::string_view data) {
  const fs::path checkpoint = folder() / "step-3";
  fs::create_directory(checkpoint);
  put("step-3/titan.json", manifest);
  put(kDataFile, data);
  load(checkpoint);
  accepted([&] { list_checkpoints(folder()); });
  accepted([&] { inspect_checkpoint(checkpoint); });
  accepted([&] {
    for (const std::string& problem : verify_checkpoint(checkpoint).problems) check_message(problem);
  });
  for (const CheckpointEntry& entry : find_checkpoints(folder())) {
    FUZZ_CHECK(entry.step == 3);
    if (entry.status != CheckpointStatus::complete) check_message(entry.problem);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = text_of(data, size);
  const size_t end = std::min(input.find('\0'), input.size());
  const std::string_view content = input.substr(0, end), file = input.substr(std::min(end + 1, input.size()));
  use(sealed_manifest(content, file), file);
  return 0;
}
