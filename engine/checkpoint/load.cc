#include "engine/checkpoint/load.h"

#include "engine/checkpoint/blocks.h"
#include "kernels/base/error.h"
#include "kernels/base/threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>

namespace titan {
namespace {

namespace fs = std::filesystem;

/// Where the pieces of one parameter and kind are stored.
struct Stored {
  std::vector<Piece> pieces;
  std::vector<std::pair<size_t, const StoredTensor*>> places;  ///< file, tensor; one a piece
};
using Index = std::unordered_map<std::string, Stored>;  // by state_name

Index index_of(const Manifest& manifest) {
  Index index;
  for (size_t f = 0; f < manifest.files.size(); ++f) {
    for (const StoredTensor& tensor : manifest.files[f].tensors) {
      Stored& stored = index[state_name(tensor.piece.parameter, tensor.kind)];
      stored.pieces.push_back(tensor.piece);
      stored.places.emplace_back(f, &tensor);
    }
  }
  return index;
}

[[noreturn]] void throw_other_model(const fs::path& checkpoint, const std::string& problem) {
  throw UserError(fmt::format(
      "{} holds another model: {}; use the recipe it was saved with (titan checkpoint inspect) or "
      "another checkpoint",
      checkpoint.string(), problem));
}

void check_extra(const fs::path& checkpoint, const Index& index, const LoadOptions& options) {
  if (options.model_parameters.empty()) return;
  const std::unordered_set<std::string> known(options.model_parameters.begin(),
                                              options.model_parameters.end());
  for (const auto& [name, stored] : index) {
    const Piece& piece = stored.pieces.front();
    if (!known.contains(piece.parameter))
      throw_other_model(checkpoint, fmt::format("it has {} of shape {}, which the recipe's model has not",
                                                piece.parameter, to_string(piece.global_shape)));
  }
}

const Stored& find_stored(const fs::path& checkpoint, const Manifest& manifest, const Index& index,
                          const WantedTensor& wanted) {
  if (manifest.model_only && wanted.kind != StateKind::parameter)
    throw UserError(fmt::format(
        "{} holds only the model (checkpoint.last_save_model_only), no optimizer state; choose an "
        "earlier checkpoint.load_step, or load only the model with checkpoint.initial_load_path or "
        "checkpoint.exclude_from_loading = [\"optimizer\"]",
        checkpoint.string()));
  const std::string name = state_name(wanted.piece.parameter, wanted.kind);
  const auto found = index.find(name);
  if (found == index.end())
    throw_other_model(checkpoint,
                      fmt::format("it has no {} of shape {}", name, to_string(wanted.piece.global_shape)));
  for (const Piece& piece : found->second.pieces)
    if (piece.global_shape != wanted.piece.global_shape)
      throw_other_model(checkpoint,
                        fmt::format("{} has shape {} there, {} in the recipe's model", name,
                                    to_string(piece.global_shape), to_string(wanted.piece.global_shape)));
  return found->second;
}

std::vector<CopyRange> find_copies(const fs::path& checkpoint, const Stored& stored, const Piece& want) {
  try {
    return plan_reads(stored.pieces, want);
  } catch (const UserError& error) {
    throw DamagedCheckpoint(fmt::format("{} is incomplete: {}", checkpoint.string(), error.what()));
  }
}

/// A run of elements within one block.
struct Part {
  int64_t begin;  ///< byte in the block
  StoredType type;
  const WantedTensor* target;
  int64_t first, count;  ///< elements of the target
};
using Work = std::map<std::pair<size_t, int64_t>, std::vector<Part>>;  // by file and block

void add_copy(const Manifest& manifest, const Stored& stored, const CopyRange& copy,
              const WantedTensor& target, Work& work) {
  const auto [f, tensor] = stored.places[copy.have];
  const int64_t size = size_of(tensor->type), block_bytes = manifest.files[f].block_bytes;
  for (int64_t done = 0; done < copy.count;) {
    const int64_t at = tensor->offset + (copy.source + done) * size;
    const int64_t count = std::min(copy.count - done, (block_bytes - at % block_bytes) / size);
    work[{f, at / block_bytes}].push_back(
        {at % block_bytes, tensor->type, &target, copy.target + done, count});
    done += count;
  }
}

bool is_excluded(const WantedTensor& wanted, const LoadParts& parts) {
  return !parts.optimizer && wanted.kind != StateKind::parameter;
}

Work plan(const fs::path& checkpoint, const Manifest& manifest, std::span<const WantedTensor> wanted,
          const LoadOptions& options) {
  const Index index = index_of(manifest);
  Work work;
  for (const WantedTensor& tensor : wanted) {
    const std::string fault = find_fault(tensor.piece);
    TITAN_CHECK(fault.empty(), "{}: {}", to_string(tensor.piece), fault);
    if (is_excluded(tensor, options.parts) || tensor.piece.elements() == 0) continue;
    const Stored& stored = find_stored(checkpoint, manifest, index, tensor);
    const std::vector<CopyRange> copies = find_copies(checkpoint, stored, tensor.piece);
    if (options.check_only) continue;
    for (const CopyRange& copy : copies) add_copy(manifest, stored, copy, tensor, work);
  }
  check_extra(checkpoint, index, options);
  return work;
}

void check_file(const fs::path& checkpoint, const StoredFile& stored) {
  const InputFile file = open_stored(checkpoint, stored);
  check_size(file, stored);
  check_header(file, stored);
}

/// Only the files that are read: thousands of ranks must not each open all files of all ranks.
void check_files(const fs::path& checkpoint, const Manifest& manifest, const Work& work) {
  for (auto task = work.begin(); task != work.end(); task = work.lower_bound({task->first.first + 1, 0}))
    check_file(checkpoint, manifest.files[task->first.first]);
}

void read_parts(const fs::path& checkpoint, const StoredFile& stored, int64_t block,
                const std::vector<Part>& parts, std::vector<std::byte>& buffer) {
  read_block(open_stored(checkpoint, stored), stored, block, buffer);
  for (const Part& part : parts)
    fill_elements(*part.target, part.first, part.count, [&](std::span<float> elements) {
      decode(part.type, buffer.data() + part.begin, elements);
    });
}

/// Runs `task(i, buffer)` for i in [0, count) on `threads` threads; throws the first error after all have
/// ended.
template <class Task>
void run_parallel(size_t count, int threads, const Task& task) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr first_error;
  const auto work = [&] {
    std::vector<std::byte> buffer;
    try {
      for (size_t i = next++; i < count; i = next++) task(i, buffer);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first_error) first_error = std::current_exception();
      next = count;
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int i = 1; i < threads && static_cast<size_t>(i) < count; ++i)
      helpers.push_back(start_thread<std::jthread>(work));
    work();
  }
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace

void fill_elements(const WantedTensor& tensor, int64_t begin, int64_t count,
                   FunctionRef<void(std::span<float>)> f) {
  if (tensor.data != nullptr) return f({tensor.data + begin, static_cast<size_t>(count)});
  TITAN_CHECK(tensor.write, "{} has no memory", tensor.piece.parameter);
  std::vector<float> elements(static_cast<size_t>(count));
  f(elements);
  tensor.write(begin, elements);
}

LoadParts parts_without(std::span<const std::string> exclude_from_loading) {
  LoadParts parts;
  for (const std::string& name : exclude_from_loading) {
    if (name == "optimizer")
      parts.optimizer = false;
    else if (name == "lr_scheduler")
      parts.lr_scheduler = false;
    else if (name == "dataloader")
      parts.dataloader = false;
    else if (name == "train_state")
      parts.train_state = false;
    else if (name == "model")
      throw UsageError(
          "checkpoint.exclude_from_loading: \"model\" cannot be excluded; to start from new weights set "
          "another "
          "checkpoint.folder");
    else
      throw UsageError(fmt::format(
          "checkpoint.exclude_from_loading: \"{}\" is none of optimizer, lr_scheduler, dataloader, "
          "train_state",
          name));
  }
  return parts;
}

Manifest load_checkpoint(const fs::path& checkpoint, std::span<const WantedTensor> wanted,
                         const LoadOptions& options) {
  Manifest manifest = read_manifest(checkpoint);
  load_checkpoint(checkpoint, manifest, wanted, options);
  return manifest;
}

void load_checkpoint(const fs::path& checkpoint, const Manifest& manifest,
                     std::span<const WantedTensor> wanted, const LoadOptions& options) {
  const Work work = plan(checkpoint, manifest, wanted, options);
  if (options.check_only)
    for (const StoredFile& stored : manifest.files) check_file(checkpoint, stored);
  check_files(checkpoint, manifest, work);
  std::vector<Work::const_iterator> tasks;
  for (auto task = work.begin(); task != work.end(); ++task) tasks.push_back(task);
  run_parallel(tasks.size(), options.threads, [&](size_t i, std::vector<std::byte>& buffer) {
    const auto& [place, parts] = *tasks[i];
    read_parts(checkpoint, manifest.files[place.first], place.second, parts, buffer);
  });
}

}  // namespace titan
