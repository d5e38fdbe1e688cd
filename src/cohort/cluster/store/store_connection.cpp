#include "cohort/cluster/store/store_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <system_error>

#include "cohort/base/error.h"
#include "cohort/base/net/socket.h"

namespace cohort::cluster {
namespace {

constexpr std::size_t kReadSize = 64 * 1024;
constexpr std::size_t kPauseAbove = 1024 * 1024;

}  // namespace

StoreConnection::StoreConnection(UniqueFd fd, const HandshakeOptions& handshake,
                                 std::size_t max_queued_bytes)
    : fd_(std::move(fd)),
      peer_(peer_name(fd_.get())),
      max_queued_bytes_(std::max(max_queued_bytes, kPauseAbove + kMaxStoreValue + kReadSize)),
      handshake_(handshake) {}

std::string StoreConnection::name() const {
  return identity_.empty() ? peer_ : fmt::format("{} ({})", identity_, peer_);
}

void StoreConnection::read() {
  char buffer[kReadSize];
  IoResult result = read_some(fd(), buffer, sizeof buffer);
  if (result.status == IoResult::Status::closed)
    throw PeerError(is_authenticated() ? "it closed the connection"
                                       : "it left without proving itself; has it another secret?");
  if (result.status == IoResult::Status::failed)
    throw PeerError(std::generic_category().message(result.code));
  if (!goodbye_) feed({buffer, result.count});
}

void StoreConnection::feed(std::string_view bytes) {
  if (handshake_) {
    bytes.remove_prefix(handshake_->feed(bytes));
    wire_ += handshake_->take_output();
    if (handshake_->state() == ServerHandshake::State::failed)
      throw AuthError(handshake_->failure());
    if (handshake_->state() == ServerHandshake::State::waiting) return;
    HandshakeResult result = handshake_->result();
    identity_ = std::move(result.peer_identity);
    decoder_.emplace(result.keys.client_to_server, kMaxStoreFrame);
    encoder_.emplace(result.keys.server_to_client, kMaxStoreFrame);
    handshake_.reset();
  }
  if (!bytes.empty()) decoder_->feed(bytes);
}

std::optional<StoreRequest> StoreConnection::next_request() {
  if (!decoder_ || goodbye_) return std::nullopt;
  held_back_ = is_paused();
  if (held_back_) return std::nullopt;
  auto payload = decoder_->next();
  if (!payload) return std::nullopt;
  return decode_store_request(*payload);
}

bool StoreConnection::is_paused() const { return queued_answer_bytes_ > kPauseAbove; }

void StoreConnection::send(StoreResponse response) {
  if (goodbye_ || is_over_limit()) return;  // about to be dropped: keep nothing more for it
  std::size_t size = response.approximate_size();
  bool is_event =
      response.status == StoreStatus::event_set || response.status == StoreStatus::event_removed;
  queue_.push_back({std::move(response), size, is_event});
  queued_bytes_ += size;
  if (!is_event) queued_answer_bytes_ += size;
}

void StoreConnection::flush() {
  while (has_output()) {
    if (written_ == wire_.size()) {
      wire_.clear();
      written_ = 0;
      while (!queue_.empty() && wire_.size() < kReadSize) {
        Queued next = std::move(queue_.front());
        queue_.pop_front();
        queued_bytes_ -= next.size;
        if (!next.is_event) queued_answer_bytes_ -= next.size;
        encoder_->encode(encode(next.response), wire_);
      }
    }
    IoResult result = write_some(fd(), std::string_view(wire_).substr(written_));
    if (result.status == IoResult::Status::would_block) return;
    if (result.status == IoResult::Status::failed)
      throw PeerError(std::generic_category().message(result.code));
    written_ += result.count;
  }
  if (wire_.capacity() > 4 * kReadSize) wire_.shrink_to_fit();
  wire_.clear();
  written_ = 0;
}

void StoreConnection::say_goodbye(const std::string& reason) {
  queue_.clear();
  queued_bytes_ = queued_answer_bytes_ = 0;
  if (encoder_)
    send({.status = StoreStatus::goodbye, .value = std::make_shared<const std::string>(reason)});
  goodbye_ = true;
}

void StoreConnection::end_output() { ::shutdown(fd(), SHUT_WR); }

std::uint32_t StoreConnection::wanted_events() const {
  std::uint32_t events = 0;
  if (!is_paused()) events |= EPOLLIN;
  if (has_output()) events |= EPOLLOUT;
  return events;
}

}  // namespace cohort::cluster
