#include "cohort/ps/client/client_link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

#include <cstring>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/net/pacing.h"
#include "cohort/base/net/socket.h"
#include "cohort/transport/shm/fd_passing.h"

namespace cohort::ps {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{2};
constexpr milliseconds kLongestPause{200};
constexpr auto kResolveLimit = std::chrono::seconds(2);

UniqueFd begin_connect(const SocketAddress& address) {
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
  avoid_pacing(socket.get(), address);
  if (::connect(socket.get(), address.get(), address.size) != 0 && errno != EINPROGRESS)
    throw PeerError(fmt::format("its address does not answer: {}", std::strerror(errno)));
  return socket;
}

}  // namespace

Link::Link(ClientCore& core, int server)
    : core_(core),
      server_(server),
      pause_(kFirstPause),
      random_(static_cast<unsigned>(core.process + static_cast<std::uint64_t>(server))) {}

Link::~Link() = default;

HandshakeOptions Link::handshake() const {
  return {.protocol = kProtocol, .secret = core_.options.secret, .identity = core_.worker_name()};
}

// An invalid one where there is no such server on this host.
UniqueFd Link::connect_unix(const std::string& name) {
  try {
    UniqueFd socket =
        connect_to(Endpoint::unix_abstract(name), Deadline::after(std::chrono::seconds(1)));
    // The server may have died since, and anybody on this host may take its name.
    if (transport::shm::peer_is_same_user(socket.get())) return socket;
  } catch (const PeerError&) {
  }
  return {};
}

// The name server may take its time: the loop goes on meanwhile.
void Link::dial() {
  timer_ = 0;
  if (closed_ || connection_ || lookup_) return;
  const auto& address = core_.options.servers[static_cast<std::size_t>(server_)];
  try {
    lookup_.emplace(Endpoint::tcp(address.host, address.port));
    if (lookup_->is_done()) return connect_tcp();
    core_.loop.add(lookup_->fd(), EPOLLIN, [this](std::uint32_t) { connect_tcp(); });
    timer_ = core_.loop.call_after(kResolveLimit, [this, host = address.host] {
      timer_ = 0;
      lost(fmt::format("the name '{}' was not resolved in time", host));
    });
  } catch (...) {
    core_.fail(std::current_exception());
  }
}

void Link::end_lookup() {
  if (!lookup_) return;
  core_.loop.remove(lookup_->fd());
  lookup_.reset();
}

void Link::connect_tcp() {
  if (timer_ != 0) core_.loop.cancel(std::exchange(timer_, 0));
  NameLookup found = std::move(*lookup_);
  core_.loop.remove(found.fd());
  lookup_.reset();
  try {
    const auto addresses = found.take();
    UniqueFd socket = begin_connect(addresses[next_address_++ % addresses.size()]);
    watch(std::make_unique<Connection>(core_.tls ? core_.tls->make_channel(std::move(socket), false)
                                                 : make_plain_channel(std::move(socket)),
                                       handshake(), false, *this));
  } catch (const PeerError& error) {
    lost(error.message());
  } catch (...) {
    core_.fail(std::current_exception());
  }
}

void Link::watch(std::unique_ptr<Connection> connection) {
  connection_ = std::move(connection);
  said_hello_ = false;
  local_name_ = LocalNameState::known;
  watched_events_ = connection_->wanted_events();
  core_.loop.add(connection_->fd(), watched_events_,
                 [this](std::uint32_t events) { drive(events); });
  timer_ = core_.loop.call_after(kHandshakeTimeout, [this] {
    timer_ = 0;
    if (connection_ && (!connection_->is_open() || local_name_ != LocalNameState::known))
      lost("it does not answer");
  });
  drive(0);
}

void Link::drop() {
  if (timer_ != 0) core_.loop.cancel(std::exchange(timer_, 0));
  end_lookup();
  if (!connection_) return;
  core_.loop.remove(connection_->fd());
  connection_.reset();
  sending_.reset();
  receiving_.reset();
  initial_next_ = 0;
  std::lock_guard lock(core_.mutex);
  if (ready_)  // a server that was not there yet has lost nothing
    for (const auto& [id, request] : core_.requests)
      if (request->kind == Request::Kind::hold || request->kind == Request::Kind::cut)
        request->broken = true;
  proven_ = welcome_ = ready_ = false;
  queue_.clear();
  core_.changed.notify_all();
}

void Link::drive(std::uint32_t events) {
  try {
    connection_->on_events(events);
  } catch (const PeerError& error) {
    return lost(error.message());
  } catch (const AuthError& error) {
    // A server that proved itself is away: somebody else may have its port until it is back.
    if (!has_been_proven_) {
      core_.fail(std::current_exception());
      return drop();
    }
    return lost(error.message());
  } catch (const ProtocolError& error) {
    if (!connection_->is_open() && !has_been_proven_) return core_.fail(std::current_exception());
    log::warning("{}: {}; connecting again", core_.server_name(server_), error.message());
    return lost(error.message());
  } catch (...) {
    core_.fail(std::current_exception());
    return drop();
  }
  if (better_) {
    drop();
    return watch(std::make_unique<Connection>(std::move(better_), handshake(), false, *this));
  }
  const std::uint32_t wanted = connection_->wanted_events();
  if (wanted != watched_events_) core_.loop.modify(connection_->fd(), watched_events_ = wanted);
}

void Link::lost(const std::string& reason) {
  drop();
  {
    std::lock_guard lock(core_.mutex);
    if (core_.failure) return;
    reason_ = reason;
    if (core_.begun) ++losses_;
  }
  const auto jittered = std::chrono::microseconds(pause_) * (500 + random_() % 500) / 1000;
  pause_ = std::min(pause_ * 2, kLongestPause);
  timer_ = core_.loop.call_after(jittered, [this] { dial(); });
}

void Link::opened(const std::string&) {
  has_been_proven_ = true;
  if (core_.options.shared_memory && reach_ != Reach::remote && !connection_->is_unix()) {
    local_name_ = LocalNameState::wanted;
    return;
  }
  enter();
}

void Link::enter() {
  std::lock_guard lock(core_.mutex);
  if (reach_ == Reach::unknown) reach_ = connection_->is_unix() ? Reach::local : Reach::remote;
  proven_ = true;
  core_.changed.notify_all();
}

void Link::redial() {
  drop();
  dial();
}

void Link::kick() {
  if (!connection_) return;
  connection_->wake();
  connection_->resume();
  if (connection_->is_open()) drive(0);
}

void Link::close() {
  closed_ = true;
  drop();
}

void Link::set_layout_locked() {
  const auto server = static_cast<std::size_t>(server_);
  outbox_.grow(core_.layout->outbox_bytes[server]);
  if (reach_ == Reach::remote) inbox_.resize(core_.layout->inbox_bytes[server]);
}

std::string Link::trouble_locked() const {
  if (proven_) return {};
  std::string text = fmt::format("is not reachable: {}", reason_);
  if (losses_ > 0) text += fmt::format("; {} reconnects", losses_);
  return text;
}

}  // namespace cohort::ps
