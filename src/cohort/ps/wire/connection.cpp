#include "cohort/ps/wire/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <variant>

#include "cohort/base/error.h"
#include "cohort/ps/wire/message_stream.h"
#include "cohort/ps/wire/unix_channel.h"

namespace cohort::ps {

namespace {

// What one call reads or writes at most.
constexpr std::size_t kBudget = std::size_t{1} << 20;
constexpr std::uint32_t kGone = EPOLLHUP | EPOLLERR;

[[noreturn]] void throw_gone(const IoResult& result) {
  if (result.status == IoResult::Status::closed) throw PeerError("the connection was closed");
  throw PeerError(fmt::format("the connection broke: {}", std::strerror(result.code)));
}

}  // namespace

struct Connection::State {
  enum class Phase { connecting, greeting, proving, open };
  using Handshake = std::variant<ClientHandshake, ServerHandshake>;

  State(std::unique_ptr<transport::tcp::Channel> to, UnixChannel* unix_to,
        const HandshakeOptions& options, bool is_server, ConnectionOwner& who)
      : owner(who),
        channel(std::move(to)),
        unix_channel(unix_to),
        handshake(is_server ? Handshake(std::in_place_type<ServerHandshake>, options)
                            : Handshake(std::in_place_type<ClientHandshake>, options,
                                        std::string("the parameter server"))),
        server(is_server),
        phase(is_server ? Phase::greeting : Phase::connecting) {}

  bool connect();
  bool greet();
  bool prove();
  bool flush();
  void open();
  void read();
  void write();

  ConnectionOwner& owner;
  std::unique_ptr<transport::tcp::Channel> channel;
  UnixChannel* unix_channel;  // the same, where it is one
  Handshake handshake;
  bool server;
  Phase phase;
  std::chrono::steady_clock::time_point born = std::chrono::steady_clock::now();
  std::string unsent;  // of the handshake
  std::optional<MessageReader> reader;
  std::optional<MessageWriter> writer;
  bool wants_to_write = true;
  bool write_failed = false;  // what the peer said before may still be read
  bool more_to_read = false;  // the channel may hold bytes that epoll does not know of
};

bool Connection::State::connect() {
  sockaddr_storage peer, mine;
  socklen_t size = sizeof peer, my_size = sizeof mine;
  if (::getpeername(channel->fd(), reinterpret_cast<sockaddr*>(&peer), &size) == 0) {
    // A connection to a port of this machine on which nobody listens can meet itself.
    if (peer.ss_family != AF_UNIX &&
        ::getsockname(channel->fd(), reinterpret_cast<sockaddr*>(&mine), &my_size) == 0 &&
        size == my_size && std::memcmp(&peer, &mine, size) == 0)
      throw PeerError(std::strerror(ECONNREFUSED));
    phase = Phase::greeting;
    return true;
  }
  int code = 0;
  size = sizeof code;
  ::getsockopt(channel->fd(), SOL_SOCKET, SO_ERROR, &code, &size);
  if (code != 0) throw PeerError(std::strerror(code));
  return false;
}

bool Connection::State::greet() {
  const IoResult result = channel->greet();
  if (result.status == IoResult::Status::would_block) return false;
  if (result.status != IoResult::Status::progress) throw_gone(result);
  phase = Phase::proving;
  return true;
}

bool Connection::State::flush() {
  while (!unsent.empty()) {
    const iovec place{unsent.data(), unsent.size()};
    const IoResult result = channel->write(&place, 1);
    if (result.status == IoResult::Status::would_block) return false;
    if (result.status != IoResult::Status::progress) throw_gone(result);
    unsent.erase(0, result.count);
  }
  return true;
}

bool Connection::State::prove() {
  while (true) {
    unsent += std::visit([](auto& h) { return h.take_output(); }, handshake);
    auto* accepting = std::get_if<ServerHandshake>(&handshake);
    if (accepting != nullptr && accepting->state() == ServerHandshake::State::failed) {
      flush();
      throw AuthError(accepting->failure());
    }
    if (!flush()) return false;
    const bool done = accepting != nullptr ? accepting->state() == ServerHandshake::State::done
                                           : std::get<ClientHandshake>(handshake).done();
    if (done) break;
    char buffer[512];
    const std::size_t wanted = std::visit([](auto& h) { return h.wanted(); }, handshake);
    const iovec place{buffer, std::min(wanted, sizeof buffer)};
    const IoResult result = channel->read(&place, 1);
    if (result.status == IoResult::Status::would_block) return false;
    if (result.status != IoResult::Status::progress) throw_gone(result);
    std::visit([&](auto& h) { h.feed({buffer, result.count}); }, handshake);
  }
  open();
  return true;
}

void Connection::State::open() {
  const HandshakeResult result = std::visit([](auto& h) { return h.result(); }, handshake);
  const SessionKeys& keys = result.keys;
  reader.emplace(server ? keys.client_to_server : keys.server_to_client, owner);
  writer.emplace(server ? keys.server_to_client : keys.client_to_server);
  phase = Phase::open;
  more_to_read = true;
  owner.opened(result.peer_identity);
}

void Connection::State::read() {
  more_to_read = false;
  std::array<iovec, 2> places;
  for (std::size_t budget = kBudget; budget > 0;) {
    const int count = reader->prepare(places);
    if (count == 0) return;
    const IoResult result = channel->read(places.data(), count);
    if (result.status == IoResult::Status::would_block) return;
    if (result.status != IoResult::Status::progress) throw_gone(result);
    reader->commit(result.count, unix_channel != nullptr ? unix_channel->take_file() : UniqueFd());
    budget -= std::min(budget, result.count);
  }
  more_to_read = true;
}

void Connection::State::write() {
  std::array<iovec, 2> places;
  for (std::size_t budget = kBudget; budget > 0;) {
    if (writer->idle()) {
      if (!owner.produce(writer->blank())) {
        wants_to_write = false;
        return;
      }
      writer->start();
    }
    if (unix_channel != nullptr && writer->file() >= 0) unix_channel->attach(writer->file());
    const IoResult result = channel->write(places.data(), writer->prepare(places));
    if (result.status == IoResult::Status::would_block) return;
    if (result.status != IoResult::Status::progress) {
      write_failed = true;  // the peer may have said why before it went: that is read first
      more_to_read = true;
      return;
    }
    writer->commit(result.count);
    budget -= std::min(budget, result.count);
  }
}

Connection::Connection(std::unique_ptr<transport::tcp::Channel> channel,
                       const HandshakeOptions& handshake, bool server, ConnectionOwner& owner)
    : state_(std::make_unique<State>(std::move(channel), nullptr, handshake, server, owner)) {}

Connection::Connection(UniqueFd unix_socket, const HandshakeOptions& handshake, bool server,
                       ConnectionOwner& owner) {
  auto channel = std::make_unique<UnixChannel>(std::move(unix_socket));
  UnixChannel* same = channel.get();
  state_ = std::make_unique<State>(std::move(channel), same, handshake, server, owner);
}

Connection::~Connection() = default;

int Connection::fd() const { return state_->channel->fd(); }
bool Connection::is_open() const { return state_->phase == State::Phase::open; }
bool Connection::is_unix() const { return state_->unix_channel != nullptr; }
std::chrono::steady_clock::time_point Connection::born() const { return state_->born; }
void Connection::wake() { state_->wants_to_write = true; }

void Connection::resume() {
  if (state_->reader && state_->reader->stalled()) state_->more_to_read = true;
}

void Connection::on_events(std::uint32_t events) {
  State& state = *state_;
  if (state.phase == State::Phase::connecting && !state.connect()) return;
  if (state.phase == State::Phase::greeting && !state.greet()) return;
  if (state.phase == State::Phase::proving && !state.prove()) return;
  if (state.reader->stalled()) {
    if (state.more_to_read) state.reader->resume();
    if (state.reader->stalled() && (events & kGone) != 0)
      throw PeerError("the connection was closed");
  }
  if (state.more_to_read || (events & (EPOLLIN | kGone)) != 0) state.read();
  if (state.wants_to_write && !state.write_failed) state.write();
  if (state.write_failed) state.read();
}

std::uint32_t Connection::wanted_events() const {
  const State& state = *state_;
  switch (state.phase) {
    case State::Phase::connecting:
      return EPOLLOUT;
    case State::Phase::greeting:
      return EPOLLIN;
    case State::Phase::proving:
      return state.unsent.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT;
    case State::Phase::open:
      break;
  }
  std::uint32_t events = state.reader->stalled() ? 0 : static_cast<std::uint32_t>(EPOLLIN);
  // A writable socket is reported at once: that is how it comes back to bytes it already has.
  if (state.more_to_read || (state.wants_to_write && !state.write_failed)) events |= EPOLLOUT;
  return events;
}

std::unique_ptr<transport::tcp::TlsContext> make_tls_context(const Secret& secret,
                                                             const std::string& job) {
  return std::make_unique<transport::tcp::TlsContext>(
      hmac_sha256(secret.bytes(), {"cohort tls 1: pre-shared key of parameter servers", job}));
}

}  // namespace cohort::ps
