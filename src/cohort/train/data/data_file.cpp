#include "cohort/train/data/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/unique_fd.h"

namespace cohort::train {
namespace {

constexpr std::size_t kBufferSize = 256 * 1024;
constexpr std::uint64_t kMostDeflateRatio = 1032;
constexpr int kGzipWindow = 15 + 16;

bool begins_gzip(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

}  // namespace

void DataFile::refuse(std::string_view problem) const {
  throw InvalidInput(fmt::format("'{}': {}", path.string(), problem), {.advice = advice});
}

struct DataReader::State {
  DataFile file;
  UniqueFd fd;
  std::uint64_t file_size = 0;
  bool compressed = false;
  bool member_ended = false;  // gzip: at the end of a member
  std::vector<std::uint8_t> buffer = std::vector<std::uint8_t>(kBufferSize);
  std::span<const std::uint8_t> ready;  // bytes of the file not yet used, in buffer
  z_stream inflater{};

  ~State() {
    if (compressed) ::inflateEnd(&inflater);
  }

  std::size_t read_file(std::span<std::uint8_t> out) {
    while (true) {
      const ssize_t count = ::read(fd.get(), out.data(), out.size());
      if (count >= 0) return static_cast<std::size_t>(count);
      if (errno != EINTR) file.refuse(fmt::format("cannot be read: {}", std::strerror(errno)));
    }
  }

  // Makes `ready` at least `size` long, or as long as the file allows.
  void fill(std::size_t size) {
    if (ready.size() >= size) return;
    std::copy(ready.begin(), ready.end(), buffer.begin());
    std::size_t filled = ready.size();
    while (filled < size) {
      const std::size_t count = read_file(std::span(buffer).subspan(filled));
      if (count == 0) break;
      filled += count;
    }
    ready = std::span(buffer).first(filled);
  }

  std::size_t read_plain(std::span<std::uint8_t> out) {
    if (ready.empty()) return read_file(out);
    const std::size_t count = std::min(out.size(), ready.size());
    std::memcpy(out.data(), ready.data(), count);
    ready = ready.subspan(count);
    return count;
  }

  std::size_t read_gzip(std::span<std::uint8_t> out) {
    while (true) {
      fill(1);
      if (member_ended) {
        fill(2);
        if (ready.empty()) return 0;
        if (!begins_gzip(ready)) file.refuse("bytes that are not gzip's follow its end");
        ::inflateReset(&inflater);
        member_ended = false;
      }
      if (ready.empty()) file.refuse("the gzip file is cut off: it ends in the middle of its data");
      inflater.next_in = const_cast<std::uint8_t*>(ready.data());
      inflater.avail_in = static_cast<uInt>(ready.size());
      inflater.next_out = out.data();
      inflater.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), 1u << 30));
      const auto room = inflater.avail_out;
      const int result = ::inflate(&inflater, Z_NO_FLUSH);
      ready = ready.last(inflater.avail_in);
      if (result == Z_STREAM_END) {
        member_ended = true;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        file.refuse(fmt::format("the gzip file is damaged ({})",
                                inflater.msg ? inflater.msg : "its data cannot be unpacked"));
      }
      if (const std::size_t count = room - inflater.avail_out; count > 0) return count;
    }
  }
};

DataReader::DataReader(DataFile file) : state_(std::make_unique<State>()) {
  state_->file = std::move(file);
  const DataFile& data = state_->file;
  state_->fd = UniqueFd(::open(data.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!state_->fd)
    data.refuse(errno == ENOENT ? std::string("there is no such file")
                                : fmt::format("cannot be opened: {}", std::strerror(errno)));
  struct stat status {};
  if (::fstat(state_->fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
    data.refuse("is not a regular file");
  state_->file_size = static_cast<std::uint64_t>(status.st_size);
  state_->fill(2);
  if (begins_gzip(state_->ready)) {
    COHORT_CHECK(::inflateInit2(&state_->inflater, kGzipWindow) == Z_OK, "zlib does not start");
    state_->compressed = true;
  }
}

DataReader::DataReader(DataReader&&) noexcept = default;
DataReader& DataReader::operator=(DataReader&&) noexcept = default;
DataReader::~DataReader() = default;

const DataFile& DataReader::file() const { return state_->file; }
bool DataReader::compressed() const { return state_->compressed; }
std::uint64_t DataReader::most_bytes() const {
  return state_->compressed ? state_->file_size * kMostDeflateRatio : state_->file_size;
}

std::size_t DataReader::read_some(std::span<std::uint8_t> out) {
  if (out.empty()) return 0;
  return state_->compressed ? state_->read_gzip(out) : state_->read_plain(out);
}

void DataReader::read(std::span<std::uint8_t> out, std::string_view what) {
  std::size_t filled = 0;
  while (filled < out.size()) {
    const std::size_t count = read_some(out.subspan(filled));
    if (count == 0)
      file().refuse(fmt::format("is too short: {} should take {} bytes{}, {} are there", what,
                                out.size(), compressed() ? " unpacked" : "", filled));
    filled += count;
  }
}

void DataReader::expect_end() {
  std::uint8_t extra;
  if (read_some({&extra, 1}) != 0)
    file().refuse("is too long: more bytes follow than its header or layout says");
}

}  // namespace cohort::train
