#include "cohort/base/net/endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "cohort/base/error.h"

namespace cohort {
namespace {

// getaddrinfo() knows no deadline, so it runs on a thread that outlives the caller when it must.
struct Lookup {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  int code = 0;
  std::vector<SocketAddress> addresses;
};

int look_up(const std::string& host, int port, int flags, std::vector<SocketAddress>& addresses) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  int code = ::getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(),
                           &hints, &list);
  if (code != 0) return code;
  for (addrinfo* entry = list; entry; entry = entry->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
    addresses.push_back(address);
  }
  ::freeaddrinfo(list);
  return 0;
}

std::vector<SocketAddress> resolve_tcp(const Endpoint& endpoint, Deadline deadline) {
  std::vector<SocketAddress> addresses;
  int numeric_flags = endpoint.host().empty() ? AI_PASSIVE : AI_NUMERICHOST;
  if (look_up(endpoint.host(), endpoint.port(), numeric_flags, addresses) == 0) {
    // "Every interface" means IPv6's, which takes IPv4 connections too, before IPv4's alone.
    if (endpoint.host().empty())
      std::stable_partition(addresses.begin(), addresses.end(),
                            [](const SocketAddress& a) { return a.family() == AF_INET6; });
    return addresses;
  }

  auto lookup = std::make_shared<Lookup>();
  std::thread([lookup, host = endpoint.host(), port = endpoint.port()] {
    std::vector<SocketAddress> found;
    int code = look_up(host, port, 0, found);
    std::lock_guard lock(lookup->mutex);
    lookup->code = code;
    lookup->addresses = std::move(found);
    lookup->done = true;
    lookup->changed.notify_all();
  }).detach();

  std::unique_lock lock(lookup->mutex);
  auto is_done = [&] { return lookup->done; };
  if (deadline.is_never())
    lookup->changed.wait(lock, is_done);
  else if (!lookup->changed.wait_until(lock, deadline.when(), is_done))
    throw TimeoutError(fmt::format("the name '{}' was not resolved in time", endpoint.host()),
                       {.advice = "Check the name server, or give the IP address."});
  if (lookup->code != 0)
    throw PeerError(
        fmt::format("cannot resolve '{}': {}", endpoint.host(), ::gai_strerror(lookup->code)),
        {.advice = "Check the spelling, the name server and /etc/hosts."});
  return lookup->addresses;
}

SocketAddress unix_address(const Endpoint& endpoint) {
  bool abstract = endpoint.kind() == Endpoint::Kind::unix_abstract;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (endpoint.path().empty() || endpoint.path().size() + 1 > sizeof name.sun_path)
    throw InvalidInput(fmt::format("the Unix socket name '{}' has {} bytes", endpoint.path(),
                                   endpoint.path().size()),
                       {.advice = fmt::format("Use 1 to {} bytes.", sizeof name.sun_path - 1)});
  std::memcpy(name.sun_path + (abstract ? 1 : 0), endpoint.path().data(), endpoint.path().size());
  SocketAddress address;
  std::memcpy(&address.storage, &name, sizeof name);
  address.size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + endpoint.path().size() + 1);
  return address;
}

}  // namespace

Endpoint::Endpoint(Kind kind, std::string name, int port)
    : kind_(kind), name_(std::move(name)), port_(port) {}

Endpoint Endpoint::tcp(std::string host, int port) {
  if (port < 0 || port > 65535)
    throw InvalidInput(fmt::format("port {} of host '{}' is out of range", port, host),
                       {.advice = "Use a port from 1 to 65535."});
  return Endpoint(Kind::tcp, std::move(host), port);
}

Endpoint Endpoint::unix_path(std::string path) {
  return Endpoint(Kind::unix_path, std::move(path), 0);
}

Endpoint Endpoint::unix_abstract(std::string name) {
  return Endpoint(Kind::unix_abstract, std::move(name), 0);
}

std::string Endpoint::to_string() const {
  if (kind_ == Kind::unix_path) return "unix:" + name_;
  if (kind_ == Kind::unix_abstract) return "unix:@" + name_;
  bool brackets = name_.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", brackets ? "[" : "", name_.empty() ? "*" : name_,
                     brackets ? "]" : "", port_);
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24) == 127;
  if (family() == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
  return family() == AF_UNIX;
}

Endpoint SocketAddress::endpoint() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    auto* in = reinterpret_cast<const sockaddr_in*>(&storage);
    ::inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
    return Endpoint::tcp(text, ntohs(in->sin_port));
  }
  if (family() == AF_INET6) {
    auto* in = reinterpret_cast<const sockaddr_in6*>(&storage);
    ::inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof text);
    return Endpoint::tcp(text, ntohs(in->sin6_port));
  }
  auto* un = reinterpret_cast<const sockaddr_un*>(&storage);
  size_t length =
      size > offsetof(sockaddr_un, sun_path) ? size - offsetof(sockaddr_un, sun_path) : 0;
  if (length > 1 && un->sun_path[0] == '\0')
    return Endpoint::unix_abstract(std::string(un->sun_path + 1, length - 1));
  return Endpoint::unix_path(std::string(un->sun_path, ::strnlen(un->sun_path, length)));
}

std::vector<SocketAddress> resolve(const Endpoint& endpoint, Deadline deadline) {
  if (endpoint.is_tcp()) return resolve_tcp(endpoint, deadline);
  return {unix_address(endpoint)};
}

}  // namespace cohort
