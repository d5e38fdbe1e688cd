#include "cohort/ps/durable/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/error.h"
#include "cohort/ps/durable/log_folder.h"

namespace cohort::ps {
namespace {

constexpr std::size_t kMaxRuns = 1024;  // IOV_MAX
constexpr std::size_t kScanBytes = 1 << 20;

[[noreturn]] void fail(const char* what, const std::filesystem::path& path) {
  throw SystemError(fmt::format("cannot {} '{}'", what, path.string()), errno);
}

void write_all(int file, std::vector<iovec>& runs, std::uint64_t place,
               const std::filesystem::path& path) {
  std::size_t first = 0;
  while (first < runs.size()) {
    int count = static_cast<int>(std::min(runs.size() - first, kMaxRuns));
    ssize_t written = ::pwritev(file, &runs[first], count, static_cast<off_t>(place));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path);
    place += static_cast<std::uint64_t>(written);
    auto left = static_cast<std::size_t>(written);
    while (first < runs.size() && left >= runs[first].iov_len) left -= runs[first++].iov_len;
    if (left > 0) {
      runs[first].iov_base = static_cast<char*>(runs[first].iov_base) + left;
      runs[first].iov_len -= left;
    }
  }
}

}  // namespace

LogAppender::LogAppender(const std::filesystem::path& folder, const LogFileHeader& header)
    : path_(log_path(folder, header.number)),
      file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {
  if (!file_) fail("create", path_);
  std::string bytes = encode_header(LogFileKind::log, header);
  std::vector<iovec> runs{{bytes.data(), bytes.size()}};
  write_all(file_.get(), runs, 0, path_);
  if (::fdatasync(file_.get()) != 0) fail("sync", path_);
  sync_folder(folder);
  end_ = bytes.size();
}

void LogAppender::append(std::span<const std::shared_ptr<std::string>> records) {
  if (torn_ && ::ftruncate(file_.get(), static_cast<off_t>(end_)) != 0) fail("cut off", path_);
  torn_ = true;
  try {
    write(records);
  } catch (const SystemError&) {
    // Gives the room back, so that others may use it meanwhile.
    if (::ftruncate(file_.get(), static_cast<off_t>(end_)) == 0) torn_ = false;
    throw;
  }
  for (const auto& record : records) end_ += record->size();
  torn_ = false;
}

void LogAppender::write(std::span<const std::shared_ptr<std::string>> records) {
  std::vector<iovec> runs;
  runs.reserve(records.size());
  for (const auto& record : records) {
    seal_record(*record, end_);
    runs.push_back({record->data(), record->size()});
  }
  write_all(file_.get(), runs, end_, path_);
  if (::fdatasync(file_.get()) != 0) fail("sync", path_);
}

LogReader::LogReader(const std::filesystem::path& path)
    : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status {};
  if (!file_ || ::fstat(file_.get(), &status) != 0) fail("read", path_);
  size_ = static_cast<std::uint64_t>(status.st_size);
  header_ = decode_header(LogFileKind::log, read_bytes(0, kLogHeaderBytes));
  offset_ = kLogHeaderBytes;
}

std::string LogReader::read_bytes(std::uint64_t place, std::size_t count) const {
  std::string bytes(count, '\0');
  std::size_t have = 0;
  while (have < count) {
    ssize_t got =
        ::pread(file_.get(), bytes.data() + have, count - have, static_cast<off_t>(place + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path_);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

std::optional<StoredRecord> LogReader::read_at(std::uint64_t place) {
  prefix_ = read_bytes(place, kRecordPrefixBytes);
  auto length = record_length(prefix_);
  if (!length || *length > size_ - place - kRecordPrefixBytes) return std::nullopt;
  rest_ = read_bytes(place + kRecordPrefixBytes, *length);
  if (rest_.size() != *length) return std::nullopt;
  return decode_record(prefix_, rest_);
}

std::optional<StoredRecord> LogReader::next() {
  auto record = read_at(offset_);
  if (record) offset_ += prefix_.size() + rest_.size();
  return record;
}

std::optional<std::uint64_t> LogReader::first_behind_damage() {
  std::string magic(4, '\0');
  put_integer(kRecordMagic, magic.data());
  for (std::uint64_t place = offset_ + 1; place < size_;) {
    std::string bytes = read_bytes(place, kScanBytes);
    if (bytes.size() < magic.size()) break;
    for (auto at = bytes.find(magic); at != bytes.npos; at = bytes.find(magic, at + 1)) {
      auto record = read_at(place + at);
      if (record && record->batch > offset_ && record->batch <= place + at) return place + at;
    }
    place += bytes.size() - (magic.size() - 1);
  }
  return std::nullopt;
}

}  // namespace cohort::ps
