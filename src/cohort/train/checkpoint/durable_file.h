#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "cohort/base/unique_fd.h"

namespace cohort::train {

// A file that appears whole or not at all, also across kill -9 and power loss: bytes go to a
// temporary file in the same folder; commit() flushes it to the disk, renames it, and flushes the
// folder. Destroyed before commit(), it leaves nothing; killed before, it leaves "<name>.tmp".
//
// Confined to one thread. Failures are SystemErrors that name the path (disk full, read-only, ...).
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path path);
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  ~DurableFile();

  void write(std::string_view bytes);
  std::uint64_t bytes_written() const { return bytes_; }
  // Call once, last.
  void commit();

 private:
  [[noreturn]] void fail(int code) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  UniqueFd fd_;
  std::uint64_t bytes_ = 0;
  bool committed_ = false;
};

inline constexpr std::string_view kTemporarySuffix = ".tmp";

void write_durably(const std::filesystem::path& path, std::string_view bytes);

// Makes renames and removals in `folder` survive a power loss.
void flush_folder(const std::filesystem::path& folder);

}  // namespace cohort::train
