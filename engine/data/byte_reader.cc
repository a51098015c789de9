#include "engine/data/byte_reader.h"

#include "engine/io/file.h"
#include "kernels/base/error.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>

namespace titan {

namespace {

constexpr size_t kInputBytes = size_t{1} << 18;
constexpr int kZstdMaxWindowLog = 31;  // also reads files written with --long=31

class PlainReader final : public ByteReader {
 public:
  explicit PlainReader(const TextFile& file) : file_(file.path) {}
  size_t read(char* buffer, size_t size) override { return file_.read(buffer, size); }
  int64_t file_offset() const override { return file_.offset(); }

 private:
  SequentialFile file_;
};

/// The compressed bytes of a file, a buffer at a time.
class CompressedInput {
 public:
  explicit CompressedInput(const TextFile& file) : file_(file.path), buffer_(kInputBytes) {}
  /// The next bytes; empty at the end of the file.
  std::span<char> next() { return {buffer_.data(), file_.read(buffer_.data(), buffer_.size())}; }
  int64_t offset() const { return file_.offset(); }
  [[noreturn]] void fail(int64_t offset, std::string_view reason) const {
    throw UserError(
        fmt::format("{}: byte {}: {}; get the file again", file_.path().string(), offset, reason));
  }
  [[noreturn]] void fail_truncated() const {
    fail(offset(), "the compressed data ends too early (truncated file)");
  }

 private:
  SequentialFile file_;
  std::vector<char> buffer_;
};

/// RFC 1952: one or more members, their contents joined; zero bytes after a member are padding.
class GzipReader final : public ByteReader {
 public:
  explicit GzipReader(const TextFile& file) : input_(file) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    TITAN_CHECK_EQ(inflateInit2(&stream_, kGzipOnly), Z_OK);
  }
  ~GzipReader() override { inflateEnd(&stream_); }

  size_t read(char* buffer, size_t size) override {
    size_t filled = 0;
    while (filled < size) {
      if (stream_.avail_in == 0) refill();
      if (!in_member_ && !begin_member()) break;
      filled += inflate_some(buffer + filled, size - filled);
    }
    return filled;
  }
  int64_t file_offset() const override { return input_.offset() - stream_.avail_in; }

 private:
  void refill() {
    const std::span<char> bytes = input_.next();
    stream_.next_in = reinterpret_cast<Bytef*>(bytes.data());
    stream_.avail_in = static_cast<uInt>(bytes.size());
  }

  /// False at the end of the file.
  bool begin_member() {
    while (stream_.avail_in > 0 && *stream_.next_in == 0) {
      ++stream_.next_in;
      if (--stream_.avail_in == 0) refill();
    }
    in_member_ = stream_.avail_in > 0;
    return in_member_;
  }

  size_t inflate_some(char* buffer, size_t size) {
    constexpr size_t kMaxStep = size_t{1} << 30;  // avail_out is 32 bits
    const size_t step = std::min(size, kMaxStep);
    stream_.next_out = reinterpret_cast<Bytef*>(buffer);
    stream_.avail_out = static_cast<uInt>(step);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      in_member_ = false;
      inflateReset(&stream_);
    } else if (status == Z_BUF_ERROR) {  // room for output, no input: refill() met the end of the file
      input_.fail_truncated();
    } else if (status != Z_OK) {
      input_.fail(file_offset(),
                  fmt::format("damaged gzip data ({})", stream_.msg ? stream_.msg : zError(status)));
    }
    return step - stream_.avail_out;
  }

  CompressedInput input_;
  z_stream stream_{};
  bool in_member_ = true;
};

class ZstdReader final : public ByteReader {
 public:
  explicit ZstdReader(const TextFile& file) : input_(file), decoder_(ZSTD_createDCtx()) {
    TITAN_CHECK(decoder_ != nullptr);
    ZSTD_DCtx_setParameter(decoder_.get(), ZSTD_d_windowLogMax, kZstdMaxWindowLog);
  }

  size_t read(char* buffer, size_t size) override {
    ZSTD_outBuffer out{buffer, size, 0};
    while (out.pos < size) {
      const bool input_ended = in_.pos == in_.size && !refill();
      if (input_ended && !in_frame_) break;
      const size_t before = out.pos;
      const size_t status = ZSTD_decompressStream(decoder_.get(), &out, &in_);
      if (ZSTD_isError(status)) {
        input_.fail(file_offset(), fmt::format("damaged zstd data ({})", ZSTD_getErrorName(status)));
      }
      if (input_ended && status != 0 && out.pos == before) input_.fail_truncated();
      in_frame_ = status != 0;
    }
    return out.pos;
  }
  int64_t file_offset() const override { return input_.offset() - static_cast<int64_t>(in_.size - in_.pos); }

 private:
  bool refill() {
    const std::span<char> bytes = input_.next();
    in_ = {bytes.data(), bytes.size(), 0};
    return !bytes.empty();
  }

  struct Free {
    void operator()(ZSTD_DCtx* decoder) const { ZSTD_freeDCtx(decoder); }
  };
  CompressedInput input_;
  std::unique_ptr<ZSTD_DCtx, Free> decoder_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool in_frame_ = true;
};

}  // namespace

std::unique_ptr<ByteReader> open_byte_reader(const TextFile& file) {
  switch (file.compression) {
    case Compression::none:
      return std::make_unique<PlainReader>(file);
    case Compression::gzip:
      return std::make_unique<GzipReader>(file);
    case Compression::zstd:
      return std::make_unique<ZstdReader>(file);
  }
  TITAN_CHECK(false, "compression {}", static_cast<int>(file.compression));
  return nullptr;
}

}  // namespace titan
