#include "cohort/cluster/store/store_connection.h"

#include <sys/epoll.h>

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/net/socket.h"

namespace cohort::cluster {
namespace {

constexpr std::size_t kReadSize = 64 * 1024;
constexpr std::size_t kPauseAbove = 1024 * 1024;

}  // namespace

StoreConnection::StoreConnection(UniqueFd fd, const HandshakeOptions& handshake,
                                 std::size_t max_queued_bytes)
    : channel_(make_plain_channel(std::move(fd)), handshake, true),
      peer_(peer_name(channel_.fd())),
      max_queued_bytes_(std::max(max_queued_bytes, kPauseAbove + kMaxStoreValue + kReadSize)) {}

std::string StoreConnection::name() const {
  return identity().empty() ? peer_ : fmt::format("{} ({})", identity(), peer_);
}

void StoreConnection::read() {
  if (!is_authenticated()) {
    if (goodbye_ || !channel_.set_up()) return;
    decoder_.emplace(channel_.make_decoder(kMaxStoreFrame));
    encoder_.emplace(channel_.make_encoder(kMaxStoreFrame));
  }
  char buffer[kReadSize];
  const iovec place{buffer, sizeof buffer};
  const IoResult result = channel_.channel().read(&place, 1);
  if (result.status == IoResult::Status::would_block) return;
  if (result.status != IoResult::Status::progress) throw_gone(result);
  if (!goodbye_) decoder_->feed({buffer, result.count});
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
    const iovec place{wire_.data() + written_, wire_.size() - written_};
    const IoResult result = channel_.channel().write(&place, 1);
    if (result.status == IoResult::Status::would_block) return;
    if (result.status != IoResult::Status::progress) throw_gone(result);
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

std::uint32_t StoreConnection::wanted_events() const {
  if (!is_authenticated() && !goodbye_) return channel_.wanted_events();
  std::uint32_t events = 0;
  if (!is_paused()) events |= EPOLLIN;
  if (has_output()) events |= EPOLLOUT;
  return events;
}

}  // namespace cohort::cluster
