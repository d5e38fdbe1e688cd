#pragma once

#include <functional>
#include <string>

#include "cohort/base/log/rate_limited_log.h"
#include "cohort/base/net/event_loop.h"
#include "cohort/base/unique_fd.h"

namespace cohort {

// Takes the connections of a listening socket in, a bounded number a round. When this machine has
// no descriptor or memory for another one, it pauses and looks again: the connection waits in the
// system's queue, and nothing that is open already suffers.
//
// Threads: confined to the loop's. `loop` must outlive it. It may be destroyed by its own handler's
// caller, not by the handler.
// Failure: the constructor throws SystemError when the socket cannot be watched. Later shortages
// are logged, at most once in ten seconds.
class Acceptor {
 public:
  using Handler = std::function<void(UniqueFd socket)>;

  // `name` is who logs: "the store". A SystemError that leaves the handler costs that connection,
  // and pauses too.
  Acceptor(EventLoop& loop, UniqueFd listener, std::string name, Handler handler);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  int fd() const { return listener_.get(); }

 private:
  void watch();
  void accept();
  void pause(const std::string& reason);

  EventLoop& loop_;
  UniqueFd listener_;
  Handler handler_;
  RateLimitedLog log_;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace cohort
