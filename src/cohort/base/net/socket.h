#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "cohort/base/deadline.h"
#include "cohort/base/net/endpoint.h"
#include "cohort/base/unique_fd.h"

// Stream sockets, TCP and Unix. Every socket made here is non-blocking and close-on-exec; TCP ones
// send without delay (TCP_NODELAY) and notice a vanished host (keep-alives, 25 s). Connections are
// direct: proxies in the environment are never looked at. Threads: functions
// without state; two threads may use one socket, one reading, one writing. Failure: PeerError when
// the other side is not there or went away, TimeoutError when the deadline passed, SystemError when
// this machine refused. Each names the address and what to do.
namespace cohort {

// A listening socket. A TCP host that resolves to several addresses gets the first that works. The
// file of a Unix socket has mode 0600.
UniqueFd listen_on(const Endpoint& endpoint, int backlog = 4096);

// Where a socket really is: the port that the system chose, the address that a name stands for.
Endpoint local_endpoint(int fd);
// A connection to a port of this machine on which no process listens can meet itself, when the
// system picks that very port as its own.
bool is_connected_to_itself(int fd);
// "10.0.0.7:41234" for messages; "unknown peer" once the connection is gone.
std::string peer_name(int fd);

// The next connection; an invalid descriptor when none is waiting, or when this machine lacks what
// another one needs (descriptors, memory): `code` then says what. Such a connection stays in the
// queue, so pause for kAcceptPause instead of asking again at once.
struct AcceptResult {
  UniqueFd socket;
  int code = 0;
  bool is_exhausted() const { return code != 0; }
};
AcceptResult try_accept(int listener);
std::string accept_failure(int code);  // for the log
constexpr std::chrono::milliseconds kAcceptPause{100};

// As try_accept(); throws SystemError where that says exhausted.
UniqueFd accept_ready(int listener);
// Waits for one.
UniqueFd accept_from(int listener, Deadline deadline);

// One attempt over all addresses of the endpoint.
UniqueFd connect_to(const Endpoint& endpoint, Deadline deadline);
// Tries again, with growing pauses of 2 to 200 ms, while no process listens there or the name is
// not known yet: the other side may start later. TimeoutError then carries the last reason.
UniqueFd connect_with_retry(const Endpoint& endpoint, Deadline deadline);

// Waits until the socket is ready for one of `events` (POLLIN, POLLOUT) or failed; false when the
// deadline passed first.
bool wait_ready(int fd, short events, Deadline deadline);

// What one non-blocking read or write did.
struct IoResult {
  enum class Status { progress, would_block, closed, failed };
  Status status = Status::progress;
  std::size_t count = 0;
  int code = 0;  // errno when failed
};
IoResult read_some(int fd, void* data, std::size_t size);
IoResult write_some(int fd, std::string_view bytes);

// All of it, or an exception. `peer` is who the error names.
void send_all(int fd, std::string_view bytes, Deadline deadline, const std::string& peer);
void recv_all(int fd, void* data, std::size_t size, Deadline deadline, const std::string& peer);

}  // namespace cohort
