#include "cohort/transport/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace cohort::transport {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
              std::atomic<std::uint32_t>::is_always_lock_free);

bool futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline) {
  timespec until{};
  if (!deadline.is_never()) {
    const auto since_boot = deadline.when().time_since_epoch();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_boot);
    until.tv_sec = seconds.count();
    until.tv_nsec =
        std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot - seconds).count();
  }
  // WAIT_BITSET takes an absolute time on CLOCK_MONOTONIC, which is what steady_clock reads.
  const long result =
      ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected,
                deadline.is_never() ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
  return !(result < 0 && errno == ETIMEDOUT);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace cohort::transport
