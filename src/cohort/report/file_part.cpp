#include "cohort/report/file_part.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "cohort/base/error.h"
#include "cohort/base/unique_fd.h"

namespace cohort::report {

FilePart read_file_part(const std::filesystem::path& path, std::uint64_t offset,
                        std::size_t most_bytes) {
  FilePart part;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!file && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENXIO))
    return part;
  if (!file || ::fstat(file.get(), &status) != 0)
    throw SystemError(fmt::format("cannot read '{}'", path.string()), errno);
  if (!S_ISREG(status.st_mode)) return part;
  part.size = static_cast<std::uint64_t>(status.st_size);
  if (part.size <= offset) return part;
  part.bytes.resize(std::min<std::uint64_t>(part.size - offset, most_bytes));
  std::size_t have = 0;
  while (have < part.bytes.size()) {
    const ssize_t count = ::pread(file.get(), part.bytes.data() + have, part.bytes.size() - have,
                                  static_cast<off_t>(offset + have));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw SystemError(fmt::format("cannot read '{}'", path.string()), errno);
    if (count == 0) break;
    have += static_cast<std::size_t>(count);
  }
  part.bytes.resize(have);
  return part;
}

}  // namespace cohort::report
