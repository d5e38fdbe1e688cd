#pragma once

#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cohort/base/deadline.h"

namespace cohort {

// Where a socket listens: TCP (a name, IPv4 or IPv6 address, and a port) or a Unix socket (a path,
// or a name in Linux's abstract namespace, which leaves no file behind). A value.
class Endpoint {
 public:
  enum class Kind { tcp, unix_path, unix_abstract };

  // An empty host means every interface; port 0 lets the system choose when listening.
  static Endpoint tcp(std::string host, int port);
  static Endpoint unix_path(std::string path);
  static Endpoint unix_abstract(std::string name);

  Kind kind() const { return kind_; }
  bool is_tcp() const { return kind_ == Kind::tcp; }
  const std::string& host() const { return name_; }  // TCP only
  const std::string& path() const { return name_; }  // Unix only
  int port() const { return port_; }

  std::string to_string() const;  // "host:2222", "[::1]:2222", "unix:/run/x", "unix:@name"

  bool operator==(const Endpoint&) const = default;

 private:
  Endpoint(Kind kind, std::string name, int port);
  Kind kind_;
  std::string name_;
  int port_;
};

// One form of an endpoint that the kernel understands.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  bool is_loopback() const;  // 127.0.0.0/8, ::1, and every Unix socket
  Endpoint endpoint() const;
};

// A name that is being looked up, for an event loop that must not wait for the name server. An IP
// address is known at once; a name is asked for on a thread of its own, which outlives this object
// when it must: getaddrinfo() knows no deadline.
// Confined to one thread. Failure: the constructor throws InvalidInput (a Unix name too long) or
// SystemError; take() throws PeerError (the name is not known).
class NameLookup {
 public:
  // How a name becomes addresses: as getaddrinfo(), a code other than 0 is a failure. Runs on any
  // thread.
  using Ask = std::function<int(const std::string& host, int port, std::vector<SocketAddress>&)>;

  explicit NameLookup(const Endpoint& endpoint);
  NameLookup(const Endpoint& endpoint, Ask ask);
  ~NameLookup();
  NameLookup(NameLookup&&) noexcept;
  NameLookup& operator=(NameLookup&&) noexcept;

  // Readable once it is done; stays so. None (-1) where it was known at once.
  int fd() const;
  bool is_done() const;
  // Once done: every address, in the order to try them.
  std::vector<SocketAddress> take();

 private:
  struct State;
  std::string host_;
  std::shared_ptr<State> state_;
};

// The same for a caller who waits. Throws TimeoutError too.
std::vector<SocketAddress> resolve(const Endpoint& endpoint, Deadline deadline);

}  // namespace cohort
