#include "cohort/base/net/authenticated_channel.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "cohort/base/error.h"

namespace cohort {
namespace {

using EitherHandshake = std::variant<ClientHandshake, ServerHandshake>;

EitherHandshake make_handshake(const HandshakeOptions& options, bool server) {
  if (server) return EitherHandshake(std::in_place_type<ServerHandshake>, options);
  return EitherHandshake(std::in_place_type<ClientHandshake>, options,
                         std::string("the other side"));
}

}  // namespace

AuthenticatedChannel::AuthenticatedChannel(std::unique_ptr<Channel> channel,
                                           const HandshakeOptions& options, bool server)
    : channel_(std::move(channel)),
      handshake_(make_handshake(options, server)),
      server_(server),
      phase_(server ? Phase::greeting : Phase::connecting) {}

bool AuthenticatedChannel::set_up() {
  if (phase_ == Phase::connecting && !connect()) return false;
  if (phase_ == Phase::greeting && !greet()) return false;
  if (phase_ == Phase::proving && !prove()) return false;
  return true;
}

bool AuthenticatedChannel::connect() {
  sockaddr_storage peer;
  socklen_t size = sizeof peer;
  int code = 0;
  if (::getpeername(fd(), reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
    size = sizeof code;
    ::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &code, &size);
    if (code == 0) return false;
  } else if (is_connected_to_itself(fd())) {
    code = ECONNREFUSED;
  }
  if (code != 0)
    throw PeerError(fmt::format("its address does not answer: {}", std::strerror(code)));
  phase_ = Phase::greeting;
  return true;
}

bool AuthenticatedChannel::greet() {
  const IoResult result = channel_->greet();
  if (result.status == IoResult::Status::would_block) return false;
  if (result.status != IoResult::Status::progress) throw_gone(result);
  phase_ = Phase::proving;
  return true;
}

bool AuthenticatedChannel::flush() {
  while (!unsent_.empty()) {
    const iovec place{unsent_.data(), unsent_.size()};
    const IoResult result = channel_->write(&place, 1);
    if (result.status == IoResult::Status::would_block) return false;
    if (result.status != IoResult::Status::progress) throw_gone(result);
    unsent_.erase(0, result.count);
  }
  return true;
}

bool AuthenticatedChannel::prove() {
  while (true) {
    unsent_ += std::visit([](auto& h) { return h.take_output(); }, handshake_);
    auto* accepting = std::get_if<ServerHandshake>(&handshake_);
    if (accepting != nullptr && accepting->state() == ServerHandshake::State::failed) {
      flush();
      throw AuthError(accepting->failure());
    }
    if (!flush()) return false;
    const bool done = accepting != nullptr ? accepting->state() == ServerHandshake::State::done
                                           : std::get<ClientHandshake>(handshake_).done();
    if (done) break;
    char buffer[512];
    const std::size_t wanted = std::visit([](auto& h) { return h.wanted(); }, handshake_);
    const iovec place{buffer, std::min(wanted, sizeof buffer)};
    const IoResult result = channel_->read(&place, 1);
    if (result.status == IoResult::Status::would_block) return false;
    if (result.status == IoResult::Status::closed)
      throw PeerError("it left without proving itself; has it another secret?");
    if (result.status != IoResult::Status::progress) throw_gone(result);
    heard_something_ = true;
    std::visit([&](auto& h) { h.feed({buffer, result.count}); }, handshake_);
  }
  result_ = std::visit([](auto& h) { return h.result(); }, handshake_);
  phase_ = Phase::open;
  return true;
}

std::uint32_t AuthenticatedChannel::wanted_events() const {
  switch (phase_) {
    case Phase::connecting:
      return EPOLLOUT;
    case Phase::proving:
      return unsent_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT;
    case Phase::greeting:
    case Phase::open:
      break;
  }
  return EPOLLIN;
}

FrameDecoder AuthenticatedChannel::make_decoder(std::size_t max_payload) const {
  const SessionKeys& keys = result_.keys;
  return {server_ ? keys.client_to_server : keys.server_to_client, max_payload};
}

FrameEncoder AuthenticatedChannel::make_encoder(std::size_t max_payload) const {
  const SessionKeys& keys = result_.keys;
  return {server_ ? keys.server_to_client : keys.client_to_server, max_payload};
}

}  // namespace cohort
