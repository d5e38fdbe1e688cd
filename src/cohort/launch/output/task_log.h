#pragma once

#include <deque>
#include <filesystem>
#include <string>
#include <string_view>

#include "cohort/base/unique_fd.h"

namespace cohort::launch {

// The file that keeps a task's output, byte for byte as it came.
// A disk that is full or gone must not end the job: the first failed write is told by write()'s
// return value, later bytes are counted as lost, and writing goes on as soon as there is room.
// Confined to one thread.
class TaskLog {
 public:
  // Throws SystemError when the file cannot be created, except for lack of room.
  explicit TaskLog(std::filesystem::path path);

  enum class Result { ok, first_failure, failed };
  Result write(std::string_view bytes);

  const std::filesystem::path& path() const { return path_; }
  const std::string& error() const { return error_; }  // why the last failed write failed
  size_t lost_bytes() const { return lost_bytes_; }

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
  std::string error_;
  size_t lost_bytes_ = 0;
};

// The newest lines of a task's output, for the report of a failure. Memory is bounded.
class LastLines {
 public:
  static constexpr size_t kLines = 20;
  static constexpr size_t kMaxLength = 500;

  void add(std::string_view line, bool is_redraw);
  const std::deque<std::string>& lines() const { return lines_; }
  // The newest line that says something; "" when there is none.
  std::string last_words() const;

 private:
  std::deque<std::string> lines_;
  bool last_is_redraw_ = false;
  int frames_ = 0;  // of a stack trace, in a row; one line stands for them
};

}  // namespace cohort::launch
