#include "cohort/base/keep_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <climits>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort {
namespace {

constexpr char kAllowed = '1';
constexpr char kNotAllowed = '0';
constexpr char kFinished = 'd';
constexpr char kNothing = '?';

// Only memory files know seals: a descriptor that a wrapper closed and something else took is
// recognised.
UniqueFd duplicate(const char* variable, const std::string& value) {
  const auto number = parse_unsigned(value);
  if (!number || *number > INT_MAX)
    throw InvalidInput(fmt::format("{} is '{}', not a file descriptor", variable, value),
                       {.advice = "Unset it, or let `cohort run` start the program."});
  const int fd = static_cast<int>(*number);
  if (::fcntl(fd, F_GET_SEALS) < 0)
    throw InvalidInput(
        fmt::format("{} is {}, but that is no open memory file: {}", variable, fd,
                    SystemError("fcntl", errno).message()),
        {.advice = "Whatever stands between `cohort run` and this program must not close "
                   "descriptors, or must unset the variable."});
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy) throw SystemError(fmt::format("cannot duplicate descriptor {}", fd), errno);
  return copy;
}

UniqueFd make_memory_file(const char* name) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd)
    throw SystemError("cannot create a memory file for what a task keeps", errno,
                      {.advice = "Raise the limit on open files: ulimit -n"});
  return fd;
}

void write_mark(int fd, char mark) {
  ssize_t count;
  do {
    count = ::pwrite(fd, &mark, 1, 0);
  } while (count < 0 && errno == EINTR);
  if (count != 1) throw SystemError("cannot write a task's restart mark", errno);
}

}  // namespace

KeepMemory::KeepMemory(UniqueFd mark, UniqueFd state)
    : mark_(std::move(mark)), state_(std::move(state)) {}

std::optional<KeepMemory> KeepMemory::from_variables(const std::optional<std::string>& mark,
                                                     const std::optional<std::string>& state) {
  if (!mark || mark->empty()) return std::nullopt;
  UniqueFd mark_file = duplicate(kRestartMarkVariable, *mark);
  UniqueFd state_file;
  if (state && !state->empty()) state_file = duplicate(kKeepStateVariable, *state);
  return KeepMemory(std::move(mark_file), std::move(state_file));
}

UniqueFd KeepMemory::state_file() const {
  if (!state_) return {};
  UniqueFd copy(::fcntl(state_.get(), F_DUPFD_CLOEXEC, 3));
  if (!copy) throw SystemError("cannot duplicate the descriptor of a task's state", errno);
  return copy;
}

void KeepMemory::allow_restart(bool allowed) {
  write_mark(mark_.get(), allowed ? kAllowed : kNotAllowed);
}

void KeepMemory::set_finished() { write_mark(mark_.get(), kFinished); }

KeepMemoryOwner::KeepMemoryOwner(Content content) : mark_(make_memory_file("cohort-restart-mark")) {
  write_mark(mark_.get(), kNothing);
  // A task has no reason to make it larger, and the launcher's memory would pay for it.
  if (::fcntl(mark_.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    throw SystemError("cannot seal a task's restart mark", errno);
  if (content == Content::mark_and_state) state_ = make_memory_file("cohort-keep-state");
}

KeepMemoryOwner::Mark KeepMemoryOwner::read_mark() const {
  char mark = kNotAllowed;
  ssize_t count;
  do {
    count = ::pread(mark_.get(), &mark, 1, 0);
  } while (count < 0 && errno == EINTR);
  if (count != 1) return Mark::no_restart;
  switch (mark) {
    case kAllowed:
      return Mark::restart;
    case kFinished:
      return Mark::finished;
    case kNothing:
      return Mark::nothing;
    default:
      return Mark::no_restart;
  }
}

}  // namespace cohort
