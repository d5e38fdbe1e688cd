#pragma once

#include <optional>
#include <string>

#include "cohort/base/unique_fd.h"

namespace cohort {

// What a task keeps with its launcher beyond its own death. Two memory files, which the launcher
// makes and the task inherits by descriptor:
// - the flag (COHORT_RESTART_FD, every task): its first byte is '1' while the task wants to be
//   started again alone when a signal kills it, instead of taking its job down; '0' while it does
//   not; 'd' when its work is done, so that its death changes nothing; '?' before it has said any;
// - the state (COHORT_KEEP_FD, parameter servers): empty at first, then whatever the task writes.
//   Who is started again finds it as it was at the instant of the death.
// Both are new in each attempt of a job. Neither is there where the task would not be
// started again: by hand, under other launchers, with --task-restarts 0.

inline constexpr const char* kRestartFlagVariable = "COHORT_RESTART_FD";
inline constexpr const char* kRestartStateVariable = "COHORT_KEEP_FD";

// The task's side. Movable, thread-compatible. Its descriptors are close-on-exec duplicates; the
// inherited ones stay as they are.
class RestartState {
 public:
  // The values of kRestartFlagVariable and kRestartStateVariable; nothing when there is no flag.
  // Throws InvalidInput when one of them is not the number of an open memory file.
  static std::optional<RestartState> from_variables(const std::optional<std::string>& flag,
                                                    const std::optional<std::string>& state);

  // A duplicate for the caller; not valid where this task has no state.
  UniqueFd state_file() const;

  // The task can go on from what it kept, or not (any more). Holds from this call on, also for the
  // process that is started after this one. Throws SystemError.
  void allow_restart(bool allowed);
  // The task's work is done, and its job needs it no more: a kill from now on neither
  // fails the job nor makes it begin again. Say it before others are told. Throws SystemError.
  void set_finished();

 private:
  RestartState(UniqueFd flag, UniqueFd state);

  UniqueFd flag_;
  UniqueFd state_;
};

// The launcher's side: makes the files and holds them as long as it lives. Thread-compatible.
class RestartStateOwner {
 public:
  enum class Content { flag, flag_and_state };

  // Throws SystemError.
  explicit RestartStateOwner(Content content);

  // For the task to inherit, with dup2(): close-on-exec here, valid as long as this object.
  int flag() const { return flag_.get(); }
  int state() const { return state_.get(); }  // -1: none

  // What the task last said.
  enum class Flag { nothing, no_restart, restart, finished };
  Flag read_flag() const;

 private:
  UniqueFd flag_;
  UniqueFd state_;
};

}  // namespace cohort
