#include "cohort/base/files/files.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstdio>

#include "cohort/base/error.h"
#include "cohort/base/unique_fd.h"

namespace cohort {

std::string read_file(const std::filesystem::path& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw SystemError(fmt::format("cannot read '{}'", path.string()), errno);
  std::string text;
  char buffer[65536];
  while (true) {
    ssize_t count = ::read(fd.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw SystemError(fmt::format("cannot read '{}'", path.string()), errno);
    if (count == 0) return text;
    text.append(buffer, static_cast<size_t>(count));
  }
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text, mode_t mode) {
  std::string temporary = fmt::format("{}.{}.tmp", path.string(), ::gettid());
  const auto make = [&] {
    return ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  };
  UniqueFd fd(make());
  if (!fd && errno == EEXIST && ::unlink(temporary.c_str()) == 0) fd.reset(make());
  int code = fd ? 0 : errno;
  while (code == 0 && !text.empty()) {
    ssize_t count = ::write(fd.get(), text.data(), text.size());
    if (count >= 0)
      text.remove_prefix(static_cast<size_t>(count));
    else if (errno != EINTR)
      code = errno;
  }
  if (code == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) code = errno;
  if (code == 0) return;
  ::unlink(temporary.c_str());
  throw SystemError(
      fmt::format("cannot write '{}'", path.string()), code,
      {.advice = code == EFBIG ? "Raise the limit on the size of files: ulimit -f" : ""});
}

std::string utc_timestamp() {
  auto now = std::chrono::system_clock::now();
  auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()) % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)), ms.count());
}

}  // namespace cohort
