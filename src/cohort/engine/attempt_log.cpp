#include "cohort/engine/attempt_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/base/unique_fd.h"
#include "cohort/engine/mpi_ranks.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;

// The nth file of a task's log, from 1 on.
using Files = std::vector<fs::path>;

// "worker:1" and "worker/1" are kept as logs/worker-1.attemptN.log. What is no name of a task has
// none: nothing of `task` can lead out of the folder.
Files log_files(const AttemptFolder& folder, std::string_view task) {
  const auto parts = split(task, task.find('/') == std::string_view::npos ? ':' : '/');
  if (parts.size() != 2 || parts[0].empty() || !parse_unsigned(parts[1]) ||
      parts[0].find_first_not_of("abcdefghijklmnopqrstuvwxyz") != std::string::npos)
    return {};
  const fs::path logs = parts[0] == "rank" ? folder.ranks() : folder.run() / "logs";
  const std::string type = task == kMpirunTask ? "worker" : parts[0];
  Files files;
  for (int attempt = 1;; ++attempt) {
    const fs::path file = logs / fmt::format("{}-{}.attempt{}.log", type, parts[1], attempt);
    if (std::error_code code; !fs::is_regular_file(file, code)) return files;
    files.push_back(file);
  }
}

void append(LogChunk& chunk, int fd, std::uint64_t from, std::size_t most_bytes) {
  const std::size_t before = chunk.bytes.size();
  chunk.bytes.resize(most_bytes);
  const ssize_t count =
      ::pread(fd, chunk.bytes.data() + before, most_bytes - before, static_cast<off_t>(from));
  chunk.bytes.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (count < 0) throw SystemError("cannot read a task's log", errno);
}

}  // namespace

LogChunk read_attempt_log(const AttemptFolder& folder, std::string_view task, std::uint64_t offset,
                          std::size_t most_bytes, bool ended) {
  LogChunk chunk{.next = offset};
  std::uint64_t begin = 0;  // of the file at hand
  for (const fs::path& path : log_files(folder, task)) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0)
      throw SystemError(fmt::format("cannot read '{}'", path.string()), errno);
    const auto end = begin + static_cast<std::uint64_t>(status.st_size);
    if (chunk.next < end && chunk.bytes.size() < most_bytes) {
      append(chunk, fd.get(), chunk.next - begin,
             std::min<std::uint64_t>(most_bytes, chunk.bytes.size() + (end - chunk.next)));
      chunk.next = offset + chunk.bytes.size();
    }
    begin = end;
  }
  chunk.end = ended && chunk.next >= begin;
  return chunk;
}

}  // namespace cohort::engine
