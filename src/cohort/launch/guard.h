#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "cohort/base/unique_fd.h"
#include "cohort/launch/leftovers.h"

namespace cohort::launch {

// The process that outlives a killed launcher: when the launcher disappears, by SIGKILL too, it
// kills every process group registered with it and every other process of the job (those with
// `variable`=`job` in their environment), then ends. It removes the launcher's control socket, too.
// It is a child of the launcher that waits on a pipe; it uses no CPU time meanwhile.
//
// Construct it before the first thread starts (it forks and does not exec). Confined to one thread.
class Guard {
 public:
  explicit Guard(std::string job, std::filesystem::path control = {},
                 const char* variable = kJobVariable);
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard();  // dismisses it: nothing is killed

  void watch(pid_t group);
  void forget(
      pid_t group);  // call before reaping the group's leader: its number is then still taken

  pid_t pid() const { return pid_; }

 private:
  void tell(int verb, pid_t group);

  UniqueFd pipe_;
  pid_t pid_ = -1;
};

}  // namespace cohort::launch
