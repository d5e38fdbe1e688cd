#include "cohort/ps/connect/server_connector.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "cohort/base/crypto/hmac.h"
#include "cohort/base/error.h"
#include "cohort/base/net/pacing.h"

namespace cohort::ps {
namespace {

constexpr auto kResolveLimit = std::chrono::seconds(2);

unsigned random_seed() {
  unsigned seed = 0;
  fill_random(&seed, sizeof seed);
  return seed;
}

UniqueFd begin_connect(const ConnectorOptions& options, const SocketAddress& address) {
  UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) throw SystemError("cannot make a socket", errno);
  const auto set = [&](int level, int name, int value) {
    ::setsockopt(socket.get(), level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);  // a host that vanishes sends no reset
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  if (const auto limit = options.unacknowledged_limit.count(); limit > 0)
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limit));
  avoid_pacing(socket.get(), address);
  if (::connect(socket.get(), address.get(), address.size) != 0 && errno != EINPROGRESS)
    throw PeerError(fmt::format("its address does not answer: {}", std::strerror(errno)));
  return socket;
}

}  // namespace

ServerConnector::ServerConnector(EventLoop& loop, ConnectorOptions options, ConnectionOwner& owner,
                                 Lost lost)
    : loop_(loop),
      options_(std::move(options)),
      owner_(owner),
      lost_(std::move(lost)),
      pause_(options_.first_pause),
      random_(random_seed()) {}

ServerConnector::~ServerConnector() { close(); }

void ServerConnector::connect() {
  if (connection_ || lookup_ || timer_ != 0) return;
  timer_ = loop_.call_after(std::chrono::milliseconds(0), [this] { attempt(); });
}

void ServerConnector::close() {
  settled();
  replacement_.reset();
  end_lookup();
  if (connection_) loop_.remove(connection_->fd());
  connection_.reset();
}

void ServerConnector::attempt() {
  timer_ = 0;
  try {
    lookup_.emplace(Endpoint::tcp(options_.address.host, options_.address.port));
    if (lookup_->is_done()) return connect_to_address();
    loop_.add(lookup_->fd(), EPOLLIN, [this](std::uint32_t) { connect_to_address(); });
    timer_ = loop_.call_after(kResolveLimit, [this] {
      timer_ = 0;
      fail(std::make_exception_ptr(
          PeerError(fmt::format("the name '{}' was not resolved in time", options_.address.host))));
    });
  } catch (...) {
    fail(std::current_exception());
  }
}

// One of the server's addresses, another with each attempt.
void ServerConnector::connect_to_address() {
  settled();
  NameLookup found = std::move(*lookup_);
  loop_.remove(found.fd());
  lookup_.reset();
  try {
    const auto addresses = found.take();
    if (addresses.empty())
      throw PeerError(fmt::format("'{}' has no address", options_.address.host));
    UniqueFd socket = begin_connect(options_, addresses[attempts_++ % addresses.size()]);
    auto channel = options_.tls != nullptr ? options_.tls->make_channel(std::move(socket), false)
                                           : make_plain_channel(std::move(socket));
    watch(std::make_unique<Connection>(std::move(channel), options_.handshake, false, owner_));
  } catch (...) {
    fail(std::current_exception());
  }
}

void ServerConnector::end_lookup() {
  if (!lookup_) return;
  loop_.remove(lookup_->fd());
  lookup_.reset();
}

void ServerConnector::watch(std::unique_ptr<Connection> connection) {
  connection_ = std::move(connection);
  watched_events_ = connection_->wanted_events();
  loop_.add(connection_->fd(), watched_events_, [this](std::uint32_t events) { drive(events); });
  timer_ = loop_.call_after(options_.attempt_limit, [this] {
    timer_ = 0;
    fail(std::make_exception_ptr(PeerError("it does not answer")));
  });
}

void ServerConnector::drive(std::uint32_t events) {
  try {
    connection_->on_events(events);
    if (replacement_) {
      UniqueFd socket = std::move(replacement_);
      close();
      watch(std::make_unique<Connection>(std::move(socket), options_.handshake, false, owner_));
    }
  } catch (...) {
    return fail(std::current_exception());
  }
  if (const std::uint32_t wanted = connection_->wanted_events(); wanted != watched_events_) {
    watched_events_ = wanted;
    loop_.modify(connection_->fd(), wanted);
  }
}

void ServerConnector::fail(std::exception_ptr error) {
  close();
  if (!lost_(error)) return;
  const auto jittered = std::chrono::microseconds(pause_) * (500 + random_() % 500) / 1000;
  pause_ = std::min(2 * pause_, options_.longest_pause);
  timer_ = loop_.call_after(jittered, [this] { attempt(); });
}

void ServerConnector::replace_by(UniqueFd unix_socket) { replacement_ = std::move(unix_socket); }

void ServerConnector::settled() {
  if (timer_ != 0) loop_.cancel(std::exchange(timer_, 0));
}

void ServerConnector::reset_pause() { pause_ = options_.first_pause; }

void ServerConnector::wake() {
  if (connection_) connection_->wake();
}

void ServerConnector::kick() {
  if (!connection_) return;
  connection_->wake();
  connection_->resume();
  if (connection_->is_open()) drive(0);
}

}  // namespace cohort::ps
