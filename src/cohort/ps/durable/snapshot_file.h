#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "cohort/base/unique_fd.h"
#include "cohort/ps/durable/log_format.h"

namespace cohort::ps {

// Writes a snapshot under another name, syncs it and renames it: it is there whole and durable, or
// not at all. False when `stopped` said so in between. Throws SystemError; nothing is left behind
// then.
bool write_snapshot_file(const std::filesystem::path& folder, const LogFileHeader& header,
                         std::span<const std::string> pieces, const std::function<bool()>& stopped);

// Reads one. Confined to one thread.
// Failure: ProtocolError where it is damaged or ends too early; SystemError.
class SnapshotReader {
 public:
  explicit SnapshotReader(const std::filesystem::path& path);

  const LogFileHeader& header() const { return header_; }
  // The next piece; nothing after the last, once the end mark was right.
  std::optional<std::string> next();

 private:
  std::string read_bytes(std::size_t count);

  std::filesystem::path path_;
  UniqueFd file_;
  LogFileHeader header_;
  std::uint64_t pieces_ = 0;
  std::uint64_t left_ = 0;  // bytes of the file
};

}  // namespace cohort::ps
