#include "engine/metrics/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <ctime>
#include <utility>

namespace titan {
namespace {

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0u);  // 0x1EDC6F41 reflected
    table[byte] = crc;
  }
  return table;
}
constexpr auto kCrcTable = make_crc_table();

template <class Unsigned>
void append_little_endian(std::string& out, Unsigned value) {
  for (size_t i = 0; i < sizeof(Unsigned); ++i) out += static_cast<char>((value >> (8 * i)) & 0xff);
}

uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

// Protobuf wire format: each field is (number << 3 | wire type) and its value.
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void append_key(std::string& out, uint32_t field, WireType type) { append_varint(out, field << 3 | type); }

void append_double(std::string& out, uint32_t field, double value) {
  append_key(out, field, kFixed64);
  append_little_endian(out, std::bit_cast<uint64_t>(value));
}

void append_float(std::string& out, uint32_t field, float value) {
  append_key(out, field, kFixed32);
  append_little_endian(out, std::bit_cast<uint32_t>(value));
}

void append_int64(std::string& out, uint32_t field, int64_t value) {
  append_key(out, field, kVarint);
  append_varint(out, static_cast<uint64_t>(value));
}

void append_bytes(std::string& out, uint32_t field, std::string_view value) {
  append_key(out, field, kLengthDelimited);
  append_varint(out, value.size());
  out += value;
}

std::string event_file_name(double wall_time) {
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  return fmt::format("events.out.tfevents.{:010}.{}.{}", static_cast<int64_t>(wall_time), host, ::getpid());
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

std::string tfrecord(std::string_view payload) {
  std::string record;
  append_little_endian(record, static_cast<uint64_t>(payload.size()));
  append_little_endian(record, masked_crc32c(record));
  record += payload;
  append_little_endian(record, masked_crc32c(payload));
  return record;
}

std::string file_version_event(double wall_time) {
  std::string event;
  append_double(event, 1, wall_time);
  append_bytes(event, 3, "brain.Event:2");
  return event;
}

std::string scalars_event(double wall_time, int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    append_bytes(value, 1, scalar.tag);
    append_float(value, 2, static_cast<float>(scalar.value));
    append_bytes(summary, 1, value);
  }
  std::string event;
  append_double(event, 1, wall_time);
  append_int64(event, 2, step);
  append_bytes(event, 5, summary);
  return event;
}

std::string run_folder_name(double wall_time) {
  const auto seconds = static_cast<std::time_t>(wall_time);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  char name[32];
  std::strftime(name, sizeof name, "%Y%m%d-%H%M", &local);
  return name;
}

TensorboardWriter::TensorboardWriter(const std::filesystem::path& folder, Clock clock)
    : clock_(std::move(clock)), file_(folder / event_file_name(clock_())) {
  file_.append(tfrecord(file_version_event(clock_())));
}

void TensorboardWriter::write(int64_t step, std::span<const Scalar> scalars) {
  file_.append(tfrecord(scalars_event(clock_(), step, scalars)));
}

}  // namespace titan
