// TensorBoard event files, written without TensorFlow: TFRecord framing around hand-encoded Event protobufs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "engine/metrics/append_file.h"
#include "engine/metrics/clock.h"
#include "engine/metrics/step_metrics.h"

namespace titan {

/// CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected), as iSCSI (RFC 3720) and TFRecord use it.
uint32_t crc32c(std::string_view bytes);

/// length (8 bytes) | masked crc of the length (4) | payload | masked crc of the payload (4), little-endian;
/// the mask is ((crc >> 15) | (crc << 17)) + 0xa282ead8.
std::string tfrecord(std::string_view payload);

/// The protobuf of tensorflow.Event { wall_time = 1, step = 2, file_version = 3, summary = 5 } that opens a
/// file, and the one with a Summary { value = 1: { tag = 1, simple_value = 2 } ... }. Wall time in seconds
/// since 1970.
std::string file_version_event(double wall_time);
std::string scalars_event(double wall_time, int64_t step, std::span<const Scalar> scalars);

/// `%Y%m%d-%H%M` in local time: the folder TorchTitan gives a run.
std::string run_folder_name(double wall_time);

class TensorboardWriter {
 public:
  /// Creates `folder`/events.out.tfevents.<time>.<host>.<pid>. Throws UserError.
  explicit TensorboardWriter(const std::filesystem::path& folder, Clock clock = unix_seconds);

  /// One event; TensorBoard sees it at once. Throws UserError.
  void write(int64_t step, std::span<const Scalar> scalars);

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  Clock clock_;
  AppendFile file_;
};

}  // namespace titan
