#include "cohort/transport/tcp/stream.h"

#include <sys/epoll.h>

#include <array>

#include "cohort/base/data/crc32c.h"

namespace cohort::transport::tcp {

void Stream::note_events(std::uint32_t events) {
  has_news_ = true;
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) readable_ = true;
  if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) writable_ = true;
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) hung_up_ = true;
}

bool Stream::set_up() {
  has_news_ = false;  // it goes as far as it can
  return channel_.set_up();
}

void Stream::open(FrameHandler& handler) {
  reader_.emplace(channel_.make_decoder(kMaxControl), kMaxControl, handler);
  writer_.emplace(channel_.make_encoder(kMaxControl));
  heard_at_ = Deadline::Clock::now();
}

void Stream::start(ChunkHeader header, const std::byte* payload) {
  header.crc = crc32c(payload, header.length);
  writer_->start(encode(header), payload, header.length);
}

bool Stream::read_once() {
  if (detached_) return false;
  const bool resumed = reader_->stalled() && reader_->resume();
  std::array<iovec, 2> places;
  const int count = reader_->prepare(places);
  if (count == 0 || !readable_) return resumed;
  const IoResult result = channel_.channel().read(places.data(), count);
  switch (result.status) {
    case IoResult::Status::progress:
      heard_at_ = Deadline::Clock::now();
      reader_->commit(result.count);
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
  if (!writable_ || write_failed_ || writer_->idle()) return false;
  std::array<iovec, 2> places;
  const IoResult result = channel_.channel().write(places.data(), writer_->prepare(places));
  switch (result.status) {
    case IoResult::Status::progress:
      writer_->commit(result.count);
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
  if (writer_) writer_->detach();
}

}  // namespace cohort::transport::tcp
