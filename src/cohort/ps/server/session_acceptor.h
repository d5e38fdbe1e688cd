#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "cohort/base/crypto/secret.h"
#include "cohort/base/log/rate_limited_log.h"
#include "cohort/base/net/acceptor.h"
#include "cohort/base/net/event_loop.h"
#include "cohort/base/unique_fd.h"
#include "cohort/cluster/address.h"
#include "cohort/ps/server/worker_session.h"

namespace cohort::ps {

struct SessionAcceptorOptions {
  std::string name;          // "ps/0", for the log
  std::string bind_host;     // "": every interface
  cluster::Address address;  // where others reach us; port 0: the system chooses
  std::string job;
  std::optional<Secret> secret;
  bool insecure = false;
  bool tls = false;
};

// A server's acceptor: listens on TCP and on a Unix socket, keeps a session for each connection,
// serves each with a bounded amount of work a turn, and closes those that do not authenticate in
// time, break the protocol or were refused. The sockets are accepted by base/net/acceptor.h.
//
// Threads: confined to the loop's, after construction. `loop` and `host` must outlive it.
// Failure: the constructor throws InvalidInput (open to the network without a secret) and
// SystemError (cannot listen). A peer's failure ends its session only.
class SessionAcceptor {
 public:
  // `gone` is called for a session that said Hello, before it is destroyed.
  SessionAcceptor(EventLoop& loop, SessionAcceptorOptions options, SessionHost& host,
                  std::function<void(WorkerSession&)> gone);
  ~SessionAcceptor();

  const cluster::Address& address() const { return options_.address; }  // the real port
  const std::string& local_name() const { return local_name_; }         // see Server

  WorkerSession* find(WorkerSession::Id id);
  void for_each(const std::function<void(WorkerSession&)>& visit);
  // The session has output: it is written when the current callback is over.
  void mark(WorkerSession& session);
  void said_hello(WorkerSession& session);  // it may stay
  bool is_drained() const;                  // everything is written, to every peer
  void set_on_settled(std::function<void()> callback) { on_settled_ = std::move(callback); }

 private:
  using Id = WorkerSession::Id;
  void add(UniqueFd socket, bool is_unix);
  void drop_one_if_full(int newest);
  void on_event(Id id, std::uint32_t events);
  void serve(WorkerSession& session, std::uint32_t events);
  void settle();
  void close_after_reply(WorkerSession& session);
  void drop(Id id, const std::string& reason, bool expected);

  EventLoop& loop_;
  SessionAcceptorOptions options_;
  SessionHost& host_;
  std::function<void(WorkerSession&)> gone_;
  std::function<void()> on_settled_;
  std::string local_name_;
  RateLimitedLog refusals_;
  std::optional<Acceptor> tcp_acceptor_;
  std::optional<Acceptor> unix_acceptor_;
  HandshakeOptions handshake_;
  std::unique_ptr<TlsContext> tls_;
  ReceiveBuffers buffers_;
  std::unordered_map<Id, std::unique_ptr<WorkerSession>> sessions_;
  std::set<Id> unauthenticated_;  // that have not said Hello, in order of arrival
  std::set<Id> silent_;           // of these, who has sent nothing
  std::size_t max_unauthenticated_ = 0;
  std::vector<Id> dirty_;
  bool serving_ = false;  // settle() will run when the current callback is over
  Id next_id_ = 1;
};

}  // namespace cohort::ps
