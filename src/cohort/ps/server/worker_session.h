#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/ps/server/outbox.h"
#include "cohort/ps/server/receive_buffers.h"
#include "cohort/ps/server/training.h"
#include "cohort/ps/server/worker_region.h"
#include "cohort/ps/wire/connection.h"
#include "cohort/ps/wire/messages.h"

namespace cohort::ps {

class WorkerSession;

// What answers a session's messages.
class SessionHost {
 public:
  virtual ~SessionHost() = default;
  // Throws when such a message may not have that many bulk bytes, before memory is given to it.
  virtual void check(WorkerSession& session, const Message& message, std::size_t bulk_bytes) = 0;
  virtual void handle(WorkerSession& session, Message message, Payload bulk, UniqueFd file) = 0;
  virtual void has_output(WorkerSession& session) = 0;
  // The peer is a server that keeps its copy here: who serves it from now on.
  virtual std::unique_ptr<ConnectionOwner> serve_replica(WorkerSession& session,
                                                         const std::string& identity) = 0;
};

// One connection of a worker, or of a peer that says so: reads its messages into pooled memory,
// and sends what its outbox has. An error of the host's is the peer's fault: it is told, and the
// connection ends when it has been, or a moment later.
//
// Threads: confined to the server's loop. `host` and `buffers` must outlive it.
// Failure: as Connection.
class WorkerSession : private ConnectionOwner {
 public:
  using Id = std::uint64_t;

  // How to make the connection for this owner.
  using Connect = std::function<std::unique_ptr<Connection>(ConnectionOwner& owner)>;
  WorkerSession(Id id, const Connect& connect, SessionHost& host, ReceiveBuffers& buffers);

  Id id() const { return id_; }
  Connection& connection() { return *connection_; }
  Outbox& outbox() { return outbox_; }
  // "worker/1 at 10.0.0.7:41234", for the log.
  std::string name() const;

  // What it said in its Hello; nothing before.
  const std::optional<Hello>& hello() const { return hello_; }
  void set_hello(const Hello& hello, UniqueFd region);
  WorkerRegion* region() { return region_ ? &*region_ : nullptr; }
  // Values and gradients need not travel.
  bool shares_memory() const { return region_.has_value(); }

  void refuse(const std::string& reason, const std::string& advice);
  bool is_refused() const { return outbox_.is_closed(); }
  // Everything that there was to send is written.
  bool is_drained() const { return drained_; }

  std::uint32_t watched_events = 0;  // as the loop knows them
  std::uint64_t timer = 0;           // ends what takes too long
  bool is_dirty = false;             // has output that was not tried yet
  bool is_leaving = false;           // was refused; its timer ends it

 private:
  void opened(const std::string& identity) override;
  std::optional<std::byte*> place(std::string_view control, std::size_t bulk_bytes) override;
  void received(std::string_view control, std::byte* bulk, std::size_t bulk_bytes,
                UniqueFd file) override;
  bool produce(Outgoing& next) override;
  bool is_replica(std::string_view control);

  Id id_;
  SessionHost& host_;
  ReceiveBuffers& buffers_;
  Outbox outbox_;
  std::string peer_;
  std::string identity_;  // as proven
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<ConnectionOwner> replica_;  // serves another server; before the connection goes
  std::optional<Hello> hello_;
  std::optional<WorkerRegion> region_;
  std::shared_ptr<std::byte> incoming_;  // the bulk that arrives
  bool drained_ = true;
};

}  // namespace cohort::ps
