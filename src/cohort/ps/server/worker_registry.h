#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "cohort/ps/wire/messages.h"

namespace cohort::ps {

// Which process and connection is which worker. A process with a larger incarnation replaces one
// with a smaller; of two with the same, the later does. Counts processes instead of comparing
// clocks, which may be set back between two of them.
//
// Pure; confined to one thread.
class WorkerRegistry {
 public:
  using SessionId = std::uint64_t;  // 0: none

  // The sender of this Hello is the worker from now on. Returns the session that was it before.
  // Throws ProtocolError for a process that was replaced.
  SessionId enter(const Hello& hello, SessionId session);
  // That session is not the worker any more. False: it was not.
  bool leave(int worker, SessionId session);

  SessionId session_of(int worker) const;
  int connected() const;

 private:
  struct Worker {
    SessionId session = 0;
    std::uint64_t incarnation = 0;
    std::uint64_t process = 0;           // 0: none has come
    std::deque<std::uint64_t> replaced;  // processes of this incarnation, the last few
  };
  std::map<int, Worker> workers_;
};

}  // namespace cohort::ps
