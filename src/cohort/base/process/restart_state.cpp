#include "cohort/base/process/restart_state.h"

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

void write_flag(int fd, char flag) {
  ssize_t count;
  do {
    count = ::pwrite(fd, &flag, 1, 0);
  } while (count < 0 && errno == EINTR);
  if (count != 1) throw SystemError("cannot write a task's restart flag", errno);
}

}  // namespace

RestartState::RestartState(UniqueFd flag, UniqueFd state)
    : flag_(std::move(flag)), state_(std::move(state)) {}

std::optional<RestartState> RestartState::from_variables(const std::optional<std::string>& flag,
                                                         const std::optional<std::string>& state) {
  if (!flag || flag->empty()) return std::nullopt;
  UniqueFd flag_file = duplicate(kRestartFlagVariable, *flag);
  UniqueFd state_file;
  if (state && !state->empty()) state_file = duplicate(kRestartStateVariable, *state);
  return RestartState(std::move(flag_file), std::move(state_file));
}

UniqueFd RestartState::state_file() const {
  if (!state_) return {};
  UniqueFd copy(::fcntl(state_.get(), F_DUPFD_CLOEXEC, 3));
  if (!copy) throw SystemError("cannot duplicate the descriptor of a task's state", errno);
  return copy;
}

void RestartState::allow_restart(bool allowed) {
  write_flag(flag_.get(), allowed ? kAllowed : kNotAllowed);
}

void RestartState::set_finished() { write_flag(flag_.get(), kFinished); }

RestartStateOwner::RestartStateOwner(Content content)
    : flag_(make_memory_file("cohort-restart-flag")) {
  write_flag(flag_.get(), kNothing);
  // A task has no reason to make it larger, and the launcher's memory would pay for it.
  if (::fcntl(flag_.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    throw SystemError("cannot seal a task's restart flag", errno);
  if (content == Content::flag_and_state) state_ = make_memory_file("cohort-keep-state");
}

RestartStateOwner::Flag RestartStateOwner::read_flag() const {
  char flag = kNotAllowed;
  ssize_t count;
  do {
    count = ::pread(flag_.get(), &flag, 1, 0);
  } while (count < 0 && errno == EINTR);
  if (count != 1) return Flag::no_restart;
  switch (flag) {
    case kAllowed:
      return Flag::restart;
    case kFinished:
      return Flag::finished;
    case kNothing:
      return Flag::nothing;
    default:
      return Flag::no_restart;
  }
}

}  // namespace cohort
