#include "cohort/ps/server/session_acceptor.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "cohort/base/crypto/hmac.h"
#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/net/pacing.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/process/limits.h"

namespace cohort::ps {

namespace {

constexpr std::size_t kMaxSessions = 10000;
// How long a peer that was refused has to take the reason in.
constexpr std::chrono::seconds kGoodbyeTimeout{5};

std::string random_local_name() {
  std::array<std::uint64_t, 2> bits;
  fill_random(bits.data(), sizeof bits);
  return fmt::format("cohort-ps/{:016x}{:016x}", bits[0], bits[1]);
}

}  // namespace

SessionAcceptor::SessionAcceptor(EventLoop& loop, SessionAcceptorOptions options, SessionHost& host,
                                 std::function<void(WorkerSession&)> gone)
    : loop_(loop),
      options_(std::move(options)),
      host_(host),
      gone_(std::move(gone)),
      refusals_(options_.name, "connections refused") {
  UniqueFd listener = listen_on(Endpoint::tcp(options_.bind_host, options_.address.port));
  avoid_pacing_of_accepted(listener.get());
  const Endpoint bound = local_endpoint(listener.get());
  options_.address.port = bound.port();
  const bool is_local = resolve(bound, Deadline::never()).front().is_loopback();
  if (!options_.secret && !is_local && !options_.insecure)
    throw InvalidInput(fmt::format("{} on {} without a secret would be open to the network",
                                   options_.name, bound.to_string()),
                       {.advice = "Set COHORT_SECRET_FILE=FILE, bind to 127.0.0.1, or accept the "
                                  "risk with COHORT_INSECURE=1."});
  if (options_.tls && !options_.secret)
    throw InvalidInput(fmt::format("{} cannot encrypt without a secret", options_.name),
                       {.advice = "Set COHORT_SECRET_FILE=FILE, or leave TLS off."});
  if (options_.tls) tls_ = make_tls_context(*options_.secret, options_.job);
  handshake_ = {.protocol = kProtocol, .secret = options_.secret, .identity = options_.name};
  raise_file_limit(kWantedFiles);
  max_unauthenticated_ = unauthenticated_limit();
  tcp_acceptor_.emplace(loop_, std::move(listener), options_.name,
                        [this](UniqueFd socket) { add(std::move(socket), false); });
  try {
    const std::string name = random_local_name();
    unix_acceptor_.emplace(loop_, listen_on(Endpoint::unix_abstract(name)), options_.name,
                           [this](UniqueFd socket) { add(std::move(socket), true); });
    local_name_ = name;
  } catch (const Error& error) {
    log::warning("{} serves workers of its own host over TCP: {}", options_.name, error.what());
  }
}

SessionAcceptor::~SessionAcceptor() {
  for (auto& [id, session] : sessions_) {
    loop_.cancel(session->timer);
    loop_.remove(session->connection().fd());
  }
}

WorkerSession* SessionAcceptor::find(Id id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

void SessionAcceptor::for_each(const std::function<void(WorkerSession&)>& visit) {
  for (auto& [id, session] : sessions_) visit(*session);
}

void SessionAcceptor::drop_one_if_full(int newest) {
  if (unauthenticated_.empty()) return;
  if (unauthenticated_.size() < max_unauthenticated_ && sessions_.size() < kMaxSessions &&
      !is_short_of_files(newest))
    return;
  // One that has said nothing first: a worker speaks at once.
  drop(silent_.empty() ? *unauthenticated_.begin() : *silent_.begin(),
       "there are too many connections", false);
}

void SessionAcceptor::add(UniqueFd socket, bool is_unix) {
  drop_one_if_full(socket.get());
  if (sessions_.size() >= kMaxSessions) {
    refusals_.warning(fmt::format("turned {} away: it has {} connections", peer_name(socket.get()),
                                  sessions_.size()));
    return;
  }
  const Id id = next_id_++;
  const auto connect = [&](ConnectionOwner& owner) {
    if (is_unix) return std::make_unique<Connection>(std::move(socket), handshake_, true, owner);
    auto channel =
        tls_ ? tls_->make_channel(std::move(socket), true) : make_plain_channel(std::move(socket));
    return std::make_unique<Connection>(std::move(channel), handshake_, true, owner);
  };
  auto session = std::make_unique<WorkerSession>(id, connect, host_, buffers_);
  session->watched_events = session->connection().wanted_events();
  session->timer = loop_.call_after(
      kHandshakeTimeout, [this, id] { drop(id, "it did not say in time who it is", false); });
  loop_.add(session->connection().fd(), session->watched_events,
            [this, id](std::uint32_t events) { on_event(id, events); });
  unauthenticated_.insert(id);
  silent_.insert(id);
  sessions_.emplace(id, std::move(session));
}

void SessionAcceptor::said_hello(WorkerSession& session) {
  if (unauthenticated_.erase(session.id()) > 0) loop_.cancel(std::exchange(session.timer, 0));
}

void SessionAcceptor::mark(WorkerSession& session) {
  if (std::exchange(session.is_dirty, true)) return;
  dirty_.push_back(session.id());
  if (std::exchange(serving_, true)) return;
  loop_.post([this] { settle(); });
}

void SessionAcceptor::on_event(Id id, std::uint32_t events) {
  WorkerSession* session = find(id);
  if (session == nullptr) return;
  silent_.erase(id);
  const bool outermost = !std::exchange(serving_, true);
  serve(*session, events);
  if (outermost) settle();
}

// Everything that a peer can do wrong ends here, and its session with it.
void SessionAcceptor::serve(WorkerSession& session, std::uint32_t events) {
  const Id id = session.id();
  try {
    Connection& connection = session.connection();
    connection.on_events(events);
    if (session.is_refused()) close_after_reply(session);
    const std::uint32_t wanted = connection.wanted_events();
    if (wanted == session.watched_events) return;
    loop_.modify(connection.fd(), wanted);
    session.watched_events = wanted;
  } catch (const PeerError& error) {
    drop(id, error.message(), true);
  } catch (const std::exception& error) {
    drop(id, error.what(), false);
  }
}

// Until nothing changes: serving one session may give others something to write.
void SessionAcceptor::settle() {
  serving_ = true;
  for (std::size_t i = 0; i < dirty_.size(); ++i) {
    WorkerSession* session = find(dirty_[i]);
    if (session == nullptr) continue;
    session->is_dirty = false;
    serve(*session, 0);
  }
  dirty_.clear();
  serving_ = false;
  if (on_settled_) on_settled_();
}

void SessionAcceptor::close_after_reply(WorkerSession& session) {
  const Id id = session.id();
  unauthenticated_.erase(id);
  if (session.is_drained()) ::shutdown(session.connection().fd(), SHUT_WR);
  if (session.is_leaving) return;
  session.is_leaving = true;
  loop_.cancel(session.timer);
  session.timer = loop_.call_after(kGoodbyeTimeout, [this, id] { drop(id, "", true); });
}

bool SessionAcceptor::is_drained() const {
  for (const auto& [id, session] : sessions_)
    if (!session->is_drained()) return false;
  return true;
}

void SessionAcceptor::drop(Id id, const std::string& reason, bool expected) {
  WorkerSession* session = find(id);
  if (session == nullptr) return;
  const bool was_unauthenticated = unauthenticated_.erase(id) > 0;
  silent_.erase(id);
  if (expected)
    log::debug("{} lost {}: {}", options_.name, session->name(), reason);
  else if (was_unauthenticated)
    refusals_.warning(fmt::format("dropped {}: {}", session->name(), reason));
  else
    log::warning("{} dropped {}: {}", options_.name, session->name(), reason);
  loop_.cancel(session->timer);
  loop_.remove(session->connection().fd());
  const auto ended = std::move(sessions_.extract(id).mapped());
  if (ended->hello()) gone_(*ended);
}

}  // namespace cohort::ps
