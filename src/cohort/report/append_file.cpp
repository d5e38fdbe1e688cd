#include "cohort/report/append_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>

#include "cohort/base/error.h"

namespace cohort::report {
namespace {

constexpr std::size_t kBatch = 64 * 1024;
constexpr auto kMaxAge = std::chrono::seconds(2);

int flags_of(AppendFile::Open how) {
  constexpr int kCommon = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  switch (how) {
    case AppendFile::Open::fresh:
      return kCommon | O_TRUNC;
    case AppendFile::Open::unique:
      return kCommon | O_EXCL;
    case AppendFile::Open::extend:
      break;
  }
  return kCommon;
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path, Open how) : path_(std::move(path)) {
  if (path_.has_parent_path()) {
    std::error_code code;
    std::filesystem::create_directories(path_.parent_path(), code);
    if (code)
      throw SystemError(fmt::format("cannot make the folder '{}'", path_.parent_path().string()),
                        code.value());
  }
  fd_.reset(::open(path_.c_str(), flags_of(how), 0644));
  if (!fd_) throw SystemError(fmt::format("cannot create '{}'", path_.string()), errno);
  off_t end = ::lseek(fd_.get(), 0, SEEK_END);
  size_ = end > 0 ? static_cast<std::size_t>(end) : 0;
}

AppendFile::~AppendFile() {
  if (!fd_) return;
  try {
    flush();
  } catch (const Error&) {
    // A destructor cannot tell; flush() does.
  }
}

void AppendFile::append(std::string_view record) {
  auto now = std::chrono::steady_clock::now();
  if (pending_.empty()) oldest_ = now;
  pending_ += record;
  if (pending_.size() >= kBatch || now - oldest_ >= kMaxAge) flush();
}

void AppendFile::flush() {
  std::string records = std::exchange(pending_, {});
  std::string_view rest = records;
  while (!rest.empty()) {
    ssize_t count = ::write(fd_.get(), rest.data(), rest.size());
    if (count >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      int code = errno;
      // Half a record would make every later one unreadable.
      bool whole =
          rest.size() == records.size() || ::ftruncate(fd_.get(), static_cast<off_t>(size_)) == 0;
      throw SystemError(fmt::format("cannot write '{}'", path_.string()), code,
                        {.advice = whole ? "Make room on that disk, or choose another folder."
                                         : "The file now ends in half a record."});
    }
  }
  size_ += records.size();
}

}  // namespace cohort::report
