#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/unique_fd.h"

namespace cohort::engine {

// An sshd of the tests' own, on a free port of loopback addresses, with keys made for it; the
// system's is left alone. Hosts are names of its ssh configuration:
//   node1, node2   each with a home folder (home()) and a PATH of its own, which begins with bin/
//   w1, w2 ...     the same as node1
//   stranger       whose host key is not known
//   changed        whose host key was another one
//   hangs          takes connections, and says nothing
//   gone           takes none
// Thread-compatible. The server ends with this object, and when the process that made it does.
class SshServer {
 public:
  // Why there is none here; "" when there can be.
  static std::string missing();

  SshServer();  // throws SystemError, or InvalidInput with sshd's words
  ~SshServer();
  SshServer(const SshServer&) = delete;
  SshServer& operator=(const SshServer&) = delete;

  // For --remote-shell.
  std::string shell() const { return "ssh -F " + (scratch_ / "config").string(); }
  std::filesystem::path home(int node) const { return scratch_ / ("home" + std::to_string(node)); }

 private:
  void make_keys();
  void write_configurations();
  void start();

  ScratchFolder scratch_;
  UniqueFd silent_;  // of the host that hangs
  int port_ = 0;
  pid_t server_ = -1;
};

}  // namespace cohort::engine
