#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/base/net/event_loop.h"
#include "cohort/ps/client/client_state.h"
#include "cohort/ps/client/server_link.h"

namespace cohort::ps {

// A worker's links to all servers and the thread that drives them; how callers hand them work and
// wait for it.
//
// Threads: callers' are any; functions that take a lock want ClientState::mutex held.
// Ownership: `state` must outlive it. The destructor closes the links and joins the thread.
// Failure: wait() and what uses it throw the client's failure, and TimeoutError at the deadline.
class ServerLinks {
 public:
  using Lock = std::unique_lock<std::mutex>;

  explicit ServerLinks(ClientState& state);  // connects
  ~ServerLinks();

  ClientState& state() const { return state_; }
  int count() const { return static_cast<int>(links_.size()); }
  LinkState& at(int server) const { return links_[static_cast<std::size_t>(server)]->state(); }
  bool all(const std::function<bool(const LinkState&)>& holds) const;

  void enqueue_locked(int server, LinkOutbound::Item item);
  void enqueue_to_all_locked(LinkOutbound::Item::Kind kind);
  void wake();  // lets the links look for work
  void run_on_loop(
      const std::function<void()>& call);  // returns after the links' thread has run it
  void reconnect_all();                    // returns when it has begun

  // Waits until ready() holds. At the deadline the error says that `what` did not happen, and what
  // each server for which `missing` has words lacks.
  void wait(Lock& lock, Deadline deadline, const std::string& what,
            const std::function<bool()>& ready,
            const std::function<std::string(int server)>& missing);

  // Hands a request to the links that it is for; complete(): waits until all have answered.
  void submit(Lock& lock, const std::shared_ptr<Request>& request);
  void complete(Lock& lock, const std::shared_ptr<Request>& request, const std::string& what,
                Deadline deadline);

 private:
  ClientState& state_;
  std::unique_ptr<TlsContext> tls_;
  EventLoop loop_;
  std::vector<std::unique_ptr<ServerLink>> links_;  // by server; set once
  std::atomic<bool> wake_posted_{false};
  bool ended_ = false;  // of thread_
  std::thread thread_;
};

}  // namespace cohort::ps
