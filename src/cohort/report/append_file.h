#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "cohort/base/unique_fd.h"

namespace cohort::report {

// A file that grows by whole records: event files, CSV and JSON lines. Records gather in memory and
// go out when there are 64 KiB of them, when the oldest is 2 s old at the next append(), and in
// flush().
//
// A write that fails (the disk is full) throws SystemError with the path. The records since the
// last flush are then lost, but the file ends with a whole record and later ones are appended as
// usual. The destructor flushes and drops an error: call flush() to hear of it. Thread-compatible.
class AppendFile {
 public:
  enum class Open {
    fresh,   // an existing file is emptied
    extend,  // an existing file is continued
    unique,  // an existing file is an error: EEXIST
  };

  // The folder is made if it is missing. Throws SystemError that names the path.
  AppendFile(std::filesystem::path path, Open how);
  AppendFile(AppendFile&&) = default;
  AppendFile& operator=(AppendFile&&) = default;
  ~AppendFile();

  void append(std::string_view record);
  void flush();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
  std::size_t size_ = 0;  // bytes of whole records in the file
  std::string pending_;
  std::chrono::steady_clock::time_point oldest_;
};

}  // namespace cohort::report
