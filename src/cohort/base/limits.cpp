#include "cohort/base/limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "cohort/base/error.h"

namespace cohort {

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

}  // namespace cohort
