#include "cohort/transport/tcp/stream.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstring>

#include "cohort/base/error.h"

namespace cohort::transport::tcp {

namespace {

[[noreturn]] void throw_gone(const IoResult& result) {
  if (result.status == IoResult::Status::closed)
    throw PeerError("its connection closed without a goodbye");
  throw PeerError(fmt::format("its connection broke: {}", std::strerror(result.code)));
}

}  // namespace

Stream::Stream(std::unique_ptr<Channel> channel, const HandshakeOptions& options, bool server)
    : channel_(std::move(channel)),
      handshake_(server ? decltype(handshake_)(std::in_place_type<ServerHandshake>, options)
                        : decltype(handshake_)(std::in_place_type<ClientHandshake>, options,
                                               std::string("the other side"))),
      server_(server),
      phase_(server ? Phase::greeting : Phase::connecting) {}

void Stream::note_events(std::uint32_t events) {
  has_news_ = true;
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) readable_ = true;
  if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) writable_ = true;
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) hung_up_ = true;
}

bool Stream::set_up() {
  has_news_ = false;  // it goes as far as it can
  if (phase_ == Phase::connecting) {
    sockaddr_storage peer;
    socklen_t size = sizeof peer;
    if (::getpeername(fd(), reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
      int code = 0;
      size = sizeof code;
      ::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &code, &size);
      if (code == 0) return false;
      throw PeerError(fmt::format("its address does not answer: {}", std::strerror(code)));
    }
    phase_ = Phase::greeting;
  }
  if (phase_ == Phase::greeting) {
    const IoResult result = channel_->greet();
    if (result.status == IoResult::Status::would_block) return false;
    if (result.status != IoResult::Status::progress) throw_gone(result);
    phase_ = Phase::proving;
  }
  if (phase_ == Phase::proving && prove()) phase_ = Phase::proven;
  return proven();
}

bool Stream::flush() {
  while (!unsent_.empty()) {
    const iovec place{unsent_.data(), unsent_.size()};
    const IoResult result = channel_->write(&place, 1);
    if (result.status == IoResult::Status::would_block) return false;
    if (result.status != IoResult::Status::progress) throw_gone(result);
    unsent_.erase(0, result.count);
  }
  return true;
}

bool Stream::prove() {
  while (true) {
    const bool done = std::visit(
        [&](auto& handshake) {
          unsent_ += handshake.take_output();
          if constexpr (std::is_same_v<std::decay_t<decltype(handshake)>, ServerHandshake>) {
            if (handshake.state() == ServerHandshake::State::failed) {
              flush();
              throw AuthError(handshake.failure());
            }
            return handshake.state() == ServerHandshake::State::done;
          } else {
            return handshake.done();
          }
        },
        handshake_);
    if (!flush()) return false;
    if (done) break;
    char buffer[512];
    const std::size_t wanted = std::visit([](auto& h) { return h.wanted(); }, handshake_);
    const iovec place{buffer, std::min(wanted, sizeof buffer)};
    const IoResult result = channel_->read(&place, 1);
    if (result.status == IoResult::Status::would_block) return false;
    if (result.status == IoResult::Status::closed)
      throw PeerError("it hung up before both sides were proven");
    if (result.status != IoResult::Status::progress) throw_gone(result);
    heard_something_ = true;
    std::visit([&](auto& h) { h.feed({buffer, result.count}); }, handshake_);
  }
  result_ = std::visit([](auto& h) { return h.result(); }, handshake_);
  return true;
}

void Stream::open(ChunkSink& sink) {
  const SessionKeys& keys = result_.keys;
  inbound_.emplace(server_ ? keys.client_to_server : keys.server_to_client, sink);
  heard_at_ = Deadline::Clock::now();
  outbound_.emplace(server_ ? keys.server_to_client : keys.client_to_server);
}

bool Stream::read_once() {
  if (detached_) return false;
  const bool resumed = inbound_->stalled() && inbound_->resume();
  std::array<iovec, 2> places;
  const int count = inbound_->prepare(places);
  if (count == 0 || !readable_) return resumed;
  const IoResult result = channel_->read(places.data(), count);
  switch (result.status) {
    case IoResult::Status::progress:
      heard_at_ = Deadline::Clock::now();
      inbound_->commit(result.count);
      return true;
    case IoResult::Status::would_block:
      readable_ = false;
      return resumed;
    case IoResult::Status::closed:
    case IoResult::Status::failed:
      break;
  }
  throw_gone(result);
}

bool Stream::write_once() {
  if (!writable_ || write_failed_ || outbound_->idle()) return false;
  std::array<iovec, 2> places;
  const IoResult result = channel_->write(places.data(), outbound_->prepare(places));
  switch (result.status) {
    case IoResult::Status::progress:
      outbound_->commit(result.count);
      return true;
    case IoResult::Status::would_block:
      writable_ = false;
      return false;
    case IoResult::Status::closed:
    case IoResult::Status::failed:
      break;
  }
  // The peer may have said why before it went: that is read first.
  write_failed_ = true;
  readable_ = hung_up_ = true;
  return false;
}

void Stream::detach() {
  detached_ = true;
  if (outbound_) outbound_->detach();
}

}  // namespace cohort::transport::tcp
