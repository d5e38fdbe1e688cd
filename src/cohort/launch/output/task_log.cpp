#include "cohort/launch/output/task_log.h"

#include <fcntl.h>

#include <cerrno>
#include <system_error>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/launch/output/error_line.h"
#include "cohort/launch/output/screen.h"

namespace cohort::launch {

namespace {

int open_log(const std::filesystem::path& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
                0644);
}

}  // namespace

TaskLog::TaskLog(std::filesystem::path path) : path_(std::move(path)), fd_(open_log(path_)) {
  if (!fd_ && errno != ENOSPC && errno != EDQUOT)
    throw SystemError(fmt::format("cannot create the log file '{}'", path_.string()), errno);
}

TaskLog::Result TaskLog::write(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!fd_) fd_.reset(open_log(path_));
    ssize_t count = fd_ ? ::write(fd_.get(), bytes.data(), bytes.size()) : -1;
    if (count >= 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
    } else if (errno != EINTR) {
      bool first = lost_bytes_ == 0;
      error_ = std::generic_category().message(errno);
      if (errno == EFBIG) error_ += " (the limit on the size of files, ulimit -f)";
      lost_bytes_ += bytes.size();
      return first ? Result::first_failure : Result::failed;
    }
  }
  return Result::ok;
}

void LastLines::add(std::string_view line, bool is_redraw) {
  if (last_is_redraw_ && !lines_.empty()) lines_.pop_back();
  last_is_redraw_ = is_redraw;
  // Twenty frames would hide what they are the frames of; the log has them.
  frames_ = is_stack_frame(line) ? frames_ + 1 : 0;
  if (frames_ > 1) {
    lines_.back() = fmt::format("({} lines of a stack trace)", frames_);
    return;
  }
  std::string text = printable(line.substr(0, kMaxLength));
  if (line.size() > kMaxLength) text += " ...";
  lines_.push_back(std::move(text));
  if (lines_.size() > kLines) lines_.pop_front();
}

std::string LastLines::last_words() const {
  for (auto line = lines_.rbegin(); line != lines_.rend(); ++line)
    if (!trim(*line).empty()) return std::string(trim(*line));
  return "";
}

}  // namespace cohort::launch
