#include "cohort/jobspec/source/gzip.h"

#include <zlib.h>

#include <array>
#include <new>

#include "cohort/base/error.h"

namespace cohort::jobspec {
namespace {

constexpr int kGzipWindow = 15 + 16;  // the largest, with gzip's header
constexpr std::size_t kGzipBuffer = 64 * 1024;

}  // namespace

struct GzipWriter::Stream : z_stream {};

GzipWriter::GzipWriter() : stream_(std::make_unique<Stream>()) {
  if (deflateInit2(stream_.get(), Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
}

GzipWriter::~GzipWriter() { deflateEnd(stream_.get()); }

void GzipWriter::write(std::string_view bytes) {
  stream_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream_->avail_in = static_cast<uInt>(bytes.size());
  deflate_all(Z_NO_FLUSH);
}

std::string GzipWriter::finish() {
  stream_->avail_in = 0;
  deflate_all(Z_FINISH);
  return std::move(packed_);
}

void GzipWriter::deflate_all(int flush) {
  std::array<char, kGzipBuffer> buffer;
  do {
    stream_->next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream_->avail_out = buffer.size();
    ::deflate(stream_.get(), flush);
    packed_.append(buffer.data(), buffer.size() - stream_->avail_out);
  } while (stream_->avail_out == 0);
}

struct GzipReader::Stream : z_stream {
  explicit Stream(GzipReader::Read reader) : z_stream{}, read(std::move(reader)) {}

  GzipReader::Read read;
  std::array<char, kGzipBuffer> packed{};
  bool ended = false;  // a member has ended, and none has begun since
};

GzipReader::GzipReader(Read read) : stream_(std::make_unique<Stream>(std::move(read))) {
  if (inflateInit2(stream_.get(), kGzipWindow) != Z_OK) throw std::bad_alloc();
}

GzipReader::~GzipReader() { inflateEnd(stream_.get()); }

std::size_t GzipReader::read(char* buffer, std::size_t size) {
  Stream& stream = *stream_;
  stream.next_out = reinterpret_cast<Bytef*>(buffer);
  stream.avail_out = static_cast<uInt>(size);
  while (stream.avail_out > 0) {
    if (stream.avail_in == 0) {
      stream.next_in = reinterpret_cast<Bytef*>(stream.packed.data());
      stream.avail_in = static_cast<uInt>(stream.read(stream.packed.data(), stream.packed.size()));
      if (stream.avail_in == 0) {
        if (!stream.ended) throw InvalidInput("the archive is cut short");
        break;
      }
    }
    if (stream.ended) {
      inflateReset(&stream);
      stream.ended = false;
    }
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    if (result == Z_STREAM_END)
      stream.ended = true;
    else if (result != Z_OK)
      throw InvalidInput("the archive is no gzip file, or broken");
  }
  return size - stream.avail_out;
}

}  // namespace cohort::jobspec
