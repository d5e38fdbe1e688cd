#include "cohort/ps/durable/replica_connector.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cohort/base/error.h"
#include "cohort/base/net/endpoint.h"

namespace cohort::ps {
namespace {

using namespace std::chrono_literals;

constexpr auto kFirstReplicaPause = 20ms;
constexpr auto kLongestReplicaPause = 1000ms;
constexpr auto kAttempt = 3000ms;  // until the other side has proven itself
constexpr int kVanishedMs = 20000;

void set_option(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof value);
}

// Begins a connection to one of the endpoint's addresses, another with each attempt.
UniqueFd begin_connect(const Endpoint& endpoint, unsigned attempt) {
  auto addresses = resolve(endpoint, Deadline::after(1s));
  if (addresses.empty()) throw PeerError(fmt::format("{} has no address", endpoint.to_string()));
  const SocketAddress& address = addresses[attempt % addresses.size()];
  UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) throw SystemError("cannot make a socket", errno);
  set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_option(fd.get(), IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(fd.get(), IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, kVanishedMs);
  if (::connect(fd.get(), address.get(), address.size) != 0 && errno != EINPROGRESS)
    throw PeerError(std::strerror(errno));
  return fd;
}

}  // namespace

int replica_holder_of(int server, int servers) {
  if (servers < 2)
    throw InvalidInput("durability 'replica' with one parameter server: nobody could hold its copy",
                       {.advice = "Start two or more (--ps 2), or choose 'process' or 'disk'."});
  return (server + 1) % servers;
}

std::string replica_holder_name(const ReplicaOptions& options) {
  int holder = replica_holder_of(options.server, static_cast<int>(options.servers.size()));
  return fmt::format("ps/{} ({})", holder,
                     to_string(options.servers[static_cast<std::size_t>(holder)]));
}

ReplicaConnector::ReplicaConnector(EventLoop& loop, const ReplicaOptions& options,
                                   ConnectionOwner& owner, std::function<void(const Error&)> lost)
    : loop_(loop),
      options_(options),
      owner_(owner),
      lost_(std::move(lost)),
      handshake_{.protocol = kProtocol,
                 .secret = options.secret,
                 .identity = fmt::format("ps/{}", options.server)},
      pause_(kFirstReplicaPause) {
  replica_holder_of(options.server, static_cast<int>(options.servers.size()));
  if (options.tls && options.secret) tls_ = make_tls_context(*options.secret, options.job);
  timer_ = loop_.call_after(0ms, [this] { attempt(); });
}

ReplicaConnector::~ReplicaConnector() { close(); }

void ReplicaConnector::close() {
  if (timer_) loop_.cancel(*timer_);
  timer_.reset();
  if (connection_) loop_.remove(connection_->fd());
  connection_.reset();
}

void ReplicaConnector::attempt() {
  timer_.reset();
  int holder = replica_holder_of(options_.server, static_cast<int>(options_.servers.size()));
  const cluster::Address& address = options_.servers[static_cast<std::size_t>(holder)];
  try {
    UniqueFd fd = begin_connect(Endpoint::tcp(address.host, address.port), attempts_++);
    auto channel =
        tls_ ? tls_->make_channel(std::move(fd), false) : make_plain_channel(std::move(fd));
    connection_ = std::make_unique<Connection>(std::move(channel), handshake_, false, owner_);
    watched_ = connection_->wanted_events();
    loop_.add(connection_->fd(), watched_, [this](std::uint32_t events) { on_events(events); });
  } catch (const Error& error) {
    fail(error);
    return;
  }
  timer_ = loop_.call_after(kAttempt, [this] {
    timer_.reset();
    if (connection_ && !connection_->is_open()) fail(PeerError("it does not answer"));
  });
}

void ReplicaConnector::on_events(std::uint32_t events) {
  try {
    connection_->on_events(events);
  } catch (const Error& error) {
    fail(error);
    return;
  }
  if (std::uint32_t wanted = connection_->wanted_events(); wanted != watched_) {
    watched_ = wanted;
    loop_.modify(connection_->fd(), wanted);
  }
}

void ReplicaConnector::fail(const Error& error) {
  close();
  timer_ = loop_.call_after(pause_, [this] { attempt(); });
  pause_ = std::min<std::chrono::milliseconds>(2 * pause_, kLongestReplicaPause);
  lost_(error);
}

void ReplicaConnector::proven() { pause_ = kFirstReplicaPause; }

void ReplicaConnector::wake_later() {
  if (connection_) connection_->wake();
}

void ReplicaConnector::wake() {
  if (!connection_) return;
  connection_->wake();
  if (connection_->is_open()) on_events(0);
}

}  // namespace cohort::ps
