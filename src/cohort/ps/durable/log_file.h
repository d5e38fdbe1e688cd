#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cohort/base/unique_fd.h"
#include "cohort/ps/durable/log_format.h"

namespace cohort::ps {

// One log file, being written. Confined to one thread at a time.
// Failure: SystemError; nothing of a batch that failed counts, it may be tried again.
class LogAppender {
 public:
  // Makes the file in `folder`; it is durable, without records, when this returns.
  LogAppender(const std::filesystem::path& folder, const LogFileHeader& header);

  // Seals the records, writes all of them and syncs once.
  void append(std::span<const std::shared_ptr<std::string>> records);

  std::uint64_t bytes() const { return end_; }

 private:
  void write(std::span<const std::shared_ptr<std::string>> records);

  std::filesystem::path path_;
  UniqueFd file_;
  std::uint64_t end_ = 0;  // what is durable
  bool torn_ = false;      // there may be bytes behind end_
};

// One log file, being read record by record. Confined to one thread.
class LogReader {
 public:
  // Throws SystemError; ProtocolError for a header that is damaged or cut off.
  explicit LogReader(const std::filesystem::path& path);

  const LogFileHeader& header() const { return header_; }
  std::uint64_t size() const { return size_; }
  std::uint64_t offset() const { return offset_; }  // where the next record begins

  // The next record, valid until the next call. Nothing at the end of the file, and where bytes
  // are no whole record: offset() is less than size() then.
  std::optional<StoredRecord> next();

  // Where offset() is damaged: the place of a record behind it that was written after the damaged
  // bytes were durable. Then it is no torn end but a hole.
  std::optional<std::uint64_t> first_behind_damage();

 private:
  std::optional<StoredRecord> read_at(std::uint64_t place);
  std::string read_bytes(std::uint64_t place, std::size_t count) const;

  std::filesystem::path path_;
  UniqueFd file_;
  std::uint64_t size_ = 0;
  std::uint64_t offset_ = 0;
  LogFileHeader header_;
  std::string prefix_, rest_;
};

}  // namespace cohort::ps
