#include "cohort/base/net/endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/unique_fd.h"

namespace cohort {
namespace {

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

// Nothing where it is a name.
std::vector<SocketAddress> numeric_addresses(const Endpoint& endpoint) {
  std::vector<SocketAddress> addresses;
  const int flags = endpoint.host().empty() ? AI_PASSIVE : AI_NUMERICHOST;
  look_up(endpoint.host(), endpoint.port(), flags, addresses);
  // "Every interface" means IPv6's, which takes IPv4 connections too, before IPv4's alone.
  if (endpoint.host().empty())
    std::stable_partition(addresses.begin(), addresses.end(),
                          [](const SocketAddress& a) { return a.family() == AF_INET6; });
  return addresses;
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

struct NameLookup::State {
  UniqueFd event;    // only for a name
  std::mutex mutex;  // guards all below
  bool is_done = false;
  int code = 0;
  std::vector<SocketAddress> addresses;

  void finish(int result, std::vector<SocketAddress> found) {
    std::lock_guard lock(mutex);
    code = result;
    addresses = std::move(found);
    is_done = true;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(event.get(), &one, sizeof one);
  }
};

NameLookup::NameLookup(const Endpoint& endpoint)
    : NameLookup(endpoint, [](const std::string& host, int port, std::vector<SocketAddress>& to) {
        return look_up(host, port, 0, to);
      }) {}

NameLookup::NameLookup(const Endpoint& endpoint, Ask ask) : state_(std::make_shared<State>()) {
  host_ = endpoint.is_tcp() ? endpoint.host() : "";
  state_->addresses =
      endpoint.is_tcp() ? numeric_addresses(endpoint) : std::vector{unix_address(endpoint)};
  state_->is_done = !state_->addresses.empty();
  if (state_->is_done) return;
  state_->event.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!state_->event) throw SystemError("make an event to look up a name", errno);
  std::thread([state = state_, ask = std::move(ask), host = host_, port = endpoint.port()] {
    std::vector<SocketAddress> found;
    const int code = ask(host, port, found);
    state->finish(code, std::move(found));
  }).detach();
}

NameLookup::~NameLookup() = default;
NameLookup::NameLookup(NameLookup&&) noexcept = default;
NameLookup& NameLookup::operator=(NameLookup&&) noexcept = default;

int NameLookup::fd() const { return state_->event.get(); }

bool NameLookup::is_done() const {
  std::lock_guard lock(state_->mutex);
  return state_->is_done;
}

std::vector<SocketAddress> NameLookup::take() {
  std::lock_guard lock(state_->mutex);
  COHORT_CHECK(state_->is_done, "the name '{}' is not looked up yet", host_);
  if (state_->code != 0)
    throw PeerError(fmt::format("cannot resolve '{}': {}", host_, ::gai_strerror(state_->code)),
                    {.advice = "Check the spelling, the name server and /etc/hosts."});
  return std::move(state_->addresses);
}

std::vector<SocketAddress> resolve(const Endpoint& endpoint, Deadline deadline) {
  NameLookup lookup(endpoint);
  pollfd entry{lookup.fd(), POLLIN, 0};
  while (!lookup.is_done()) {
    if (deadline.expired())
      throw TimeoutError(fmt::format("the name '{}' was not resolved in time", endpoint.host()),
                         {.advice = "Check the name server, or give the IP address."});
    ::poll(&entry, 1, deadline.poll_timeout_ms());
  }
  return lookup.take();
}

}  // namespace cohort
