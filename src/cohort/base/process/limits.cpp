#include "cohort/base/process/limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <future>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

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

void require_threads(int count, std::string_view what) {
  std::promise<void> over;
  const std::shared_future<void> end = over.get_future().share();
  std::vector<std::thread> threads;
  std::exception_ptr refused;
  try {
    threads.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i)
      threads.emplace_back([end] {
        // Memory of its own, as real threads have: the system reserves much address space for it.
        const auto memory = std::make_unique<std::string>(64, 'x');
        end.wait();
      });
  } catch (const std::system_error&) {
    refused = std::current_exception();
  } catch (const std::bad_alloc&) {
    refused = std::current_exception();
  }
  const auto started = threads.size();
  over.set_value();
  for (std::thread& thread : threads) thread.join();
  if (refused)
    throw SystemError(
        fmt::format("cannot start {} threads for {}: the system gives {}", count, what, started),
        EAGAIN, {.advice = limits_advice()});
}

std::string limits_advice() {
  const auto shown = [](int resource, std::uint64_t unit) {
    rlimit limit{};
    if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return std::string("?");
    return limit.rlim_cur == RLIM_INFINITY ? std::string("unlimited")
                                           : std::to_string(limit.rlim_cur / unit);
  };
  return fmt::format(
      "Raise the limit on processes (ulimit -u, now {}) or on memory (ulimit -v, now {}), or end "
      "some of this user's processes.",
      shown(RLIMIT_NPROC, 1), shown(RLIMIT_AS, 1024));
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
