#include "engine/checkpoint/report.h"

#include "engine/checkpoint/blocks.h"
#include "engine/checkpoint/catalog.h"
#include "kernels/base/error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>

namespace titan {
namespace {

namespace fs = std::filesystem;

std::string human_bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

int64_t total_bytes(const Manifest& manifest) {
  int64_t bytes = 0;
  for (const StoredFile& file : manifest.files) bytes += file.size();
  return bytes;
}

std::string thousands(int64_t value) {
  if (value < 1000) return std::to_string(value);
  return fmt::format("{},{:03}", thousands(value / 1000), value % 1000);
}

std::string list_line(const CheckpointEntry& entry) {
  if (entry.status == CheckpointStatus::incomplete)
    return fmt::format("{:>10}  incomplete  {}\n", entry.step, entry.problem);
  if (entry.status == CheckpointStatus::damaged)
    return fmt::format("{:>10}  damaged     {}\n", entry.step, entry.problem);
  const Manifest manifest = read_manifest(entry.path);
  return fmt::format("{:>10}  {:10}  {:>11}  {:>18}  {:20}  {}\n", entry.step,
                     manifest.model_only ? "model only" : "complete", human_bytes(total_bytes(manifest)),
                     thousands(manifest.run.tokens_seen), manifest.saved_at, manifest.run.layout);
}

/// One parameter over all files: its row in the table of tensors.
struct TensorSummary {
  std::vector<int64_t> shape;
  StoredType type = StoredType::f32;
  int64_t bytes = 0;
  int pieces = 0;
};

std::map<std::string, TensorSummary> summarize(const Manifest& manifest) {
  std::map<std::string, TensorSummary> rows;
  for (const StoredFile& file : manifest.files) {
    for (const StoredTensor& tensor : file.tensors) {
      const Piece& piece = tensor.piece;
      TensorSummary& row = rows[state_name(piece.parameter, tensor.kind)];
      row.shape = piece.global_shape;
      row.type = tensor.type;
      row.bytes += tensor.bytes();
      ++row.pieces;
    }
  }
  return rows;
}

std::string tensor_table(const Manifest& manifest) {
  const auto rows = summarize(manifest);
  size_t width = 6;
  for (const auto& [name, row] : rows) width = std::max(width, name.size());
  std::string text =
      fmt::format("{:{}}  {:16}  {:5}  {:>11}  {:>6}\n", "tensor", width, "shape", "dtype", "size", "pieces");
  for (const auto& [name, row] : rows)
    text += fmt::format("{:{}}  {:16}  {:5}  {:>11}  {:>6}\n", name, width, to_string(row.shape),
                        safetensors_name(row.type), human_bytes(row.bytes), row.pieces);
  return text;
}

void verify_file(const fs::path& checkpoint, const StoredFile& stored, VerifyReport& report) {
  const auto attempt = [&](const auto& check) {
    try {
      check();
      return true;
    } catch (const UserError& error) {
      report.problems.emplace_back(error.what());
      return false;
    }
  };
  attempt([&] {
    const InputFile file = open_stored(checkpoint, stored);
    ++report.files;
    check_size(file, stored);
    attempt([&] { check_header(file, stored); });
    std::vector<std::byte> buffer;
    for (size_t block = 0; block < stored.block_hashes.size(); ++block) {
      attempt([&] { read_block(file, stored, static_cast<int64_t>(block), buffer); });
      ++report.blocks;
    }
    report.bytes += stored.size();
  });
}

}  // namespace

std::string list_checkpoints(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw UserError(fmt::format("{}: there is no such folder", folder.string()));
  if (fs::exists(folder / kManifestName))
    throw UserError(
        fmt::format("{0} is a checkpoint, not a folder of them; see what it holds with `titan checkpoint "
                    "inspect {0}`",
                    folder.string()));
  std::string text = fmt::format("{:>10}  {:10}  {:>11}  {:>18}  {:20}  {}\n", "step", "status", "size",
                                 "tokens", "saved at", "layout");
  for (const CheckpointEntry& entry : find_checkpoints(folder)) text += list_line(entry);
  return text;
}

std::string inspect_checkpoint(const fs::path& checkpoint) {
  const Manifest manifest = read_manifest(checkpoint);
  const RunState& run = manifest.run;
  std::string text;
  const auto line = [&](const char* key, const std::string& value) {
    text += fmt::format("{:<18}{}\n", key, value);
  };
  line("checkpoint", checkpoint.string());
  line("step", thousands(run.step));
  line("tokens seen", thousands(run.tokens_seen));
  line("samples consumed", thousands(run.samples_consumed));
  line("global batch size", thousands(run.global_batch_size));
  line("layout", fmt::format("{} ({} ranks)", run.layout, run.world_size));
  line("content", manifest.model_only ? "model only" : "model and optimizer");
  line("files", fmt::format("{}, {}", manifest.files.size(), human_bytes(total_bytes(manifest))));
  line("saved", fmt::format("{} by titan {} in {:.2f} s", manifest.saved_at, manifest.titan_version,
                            manifest.save_seconds));
  line("data", run.data);
  return fmt::format("{}\n{}\nmodel\n{}\n\nrecipe\n{}\n", text, tensor_table(manifest), run.model_config,
                     run.recipe);
}

VerifyReport verify_checkpoint(const fs::path& checkpoint) {
  VerifyReport report;
  try {
    const Manifest manifest = read_manifest(checkpoint);
    for (const StoredFile& stored : manifest.files) verify_file(checkpoint, stored, report);
  } catch (const DamagedCheckpoint& error) {
    report.problems.emplace_back(error.what());
  }
  return report;
}

std::string to_string(const VerifyReport& report) {
  const std::string read =
      fmt::format("{} files, {} blocks, {}", report.files, report.blocks, human_bytes(report.bytes));
  if (report.ok()) return fmt::format("ok: {}\n", read);
  return fmt::format("{} problems in {}:\n{}\n", report.problems.size(), read,
                     fmt::join(report.problems, "\n"));
}

}  // namespace titan
