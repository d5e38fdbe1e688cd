#include "cohort/base/limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "cohort/base/error.h"

namespace cohort {
namespace {

// Pipes, files and sockets that a process opens in a moment: a task's start takes about ten.
constexpr std::uint64_t kReservedFiles = 64;

std::uint64_t file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    throw SystemError("cannot read the limit of open files", errno);
  return limit.rlim_cur;
}

}  // namespace

std::uint64_t raise_file_limit(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    throw SystemError("cannot read the limit of open files", errno);
  rlim_t target = std::min<rlim_t>(wanted, limit.rlim_max);
  if (limit.rlim_cur >= target) return limit.rlim_cur;
  limit.rlim_cur = target;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0)
    throw SystemError("cannot raise the limit of open files", errno);
  return limit.rlim_cur;
}

bool is_shortage(const Error& error) {
  const auto* refused = dynamic_cast<const SystemError*>(&error);
  if (refused == nullptr) return false;
  const int code = refused->code();
  return code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM || code == EAGAIN;
}

std::size_t unauthenticated_limit() {
  return std::clamp<std::uint64_t>(file_limit() / 8, 16, 1024);
}

bool is_short_of_files(int newest) {
  const std::uint64_t limit = file_limit();
  return static_cast<std::uint64_t>(newest) + std::min(kReservedFiles, limit / 4) >= limit;
}

}  // namespace cohort
