#include "cohort/transport/tcp/link.h"

#include <algorithm>
#include <cstring>

#include "cohort/base/error.h"

namespace cohort::transport::tcp {

namespace {

// More than the system's buffers hold of a connection whose other end is closed.
constexpr std::size_t kMaxEarlyBytes = std::size_t{256} << 20;

}  // namespace

// The frames of one stream, for the link.
class Link::Sink : public FrameHandler {
 public:
  Sink(Link& link, int stream) : link_(link), stream_(stream) {}

  std::optional<Bulk> frame(std::string_view payload) override {
    control_ = decode_control(payload);
    if (const auto* header = std::get_if<ChunkHeader>(&control_))
      return Bulk{header->length, header->crc};
    return std::nullopt;
  }
  std::optional<std::byte*> place() override {
    return link_.place(stream_, std::get<ChunkHeader>(control_));
  }
  void complete(UniqueFd) override {
    if (const auto* header = std::get_if<ChunkHeader>(&control_)) {
      link_.arrived(stream_, *header);
    } else if (const auto* goodbye = std::get_if<Goodbye>(&control_)) {
      ++link_.ended_;
      if (!link_.goodbye_) link_.goodbye_ = *goodbye;
    }
  }
  bool is_over() const override { return std::holds_alternative<Goodbye>(control_); }

 private:
  Link& link_;
  int stream_;
  Control control_;  // of the last frame
};

Link::Link(int peer, Lane lane, std::string own_name, std::string peer_name)
    : peer_(peer), lane_(lane), own_name_(std::move(own_name)), peer_name_(std::move(peer_name)) {}

Link::~Link() = default;

MessagePointer Link::post(bool is_send, std::byte* memory, std::size_t size) {
  auto message = std::make_shared<Message>();
  message->is_send = is_send;
  message->peer = peer_;
  message->lane = lane_;
  message->memory = memory;
  message->size = size;
  message->number = is_send ? next_send_++ : next_receive_++;
  if (open_) message->stripes = Stripes(message->number, size, static_cast<int>(streams_.size()));
  (is_send ? sends_ : receives_).push_back(message);
  if (!is_send && !early_.empty()) deliver_early(*message);
  return message;
}

bool Link::attach(int index, int streams, std::unique_ptr<Stream>& stream) {
  if (streams_.empty()) {
    streams_.resize(static_cast<std::size_t>(streams));
    sinks_.resize(streams_.size());
    sending_.resize(streams_.size());
  }
  const auto at = static_cast<std::size_t>(index);
  if (streams_.size() != static_cast<std::size_t>(streams) || streams_[at] != nullptr) return false;
  sinks_[at] = std::make_unique<Sink>(*this, index);
  stream->open(*sinks_[at]);
  streams_[at] = std::move(stream);
  open_ = std::all_of(streams_.begin(), streams_.end(), [](const auto& s) { return s != nullptr; });
  if (open_)
    for (const auto* queue : {&sends_, &receives_})
      for (const MessagePointer& message : *queue)
        message->stripes = Stripes(message->number, message->size, streams);
  return true;
}

bool Link::pump() {
  if (!open_) return false;
  bool moved = false;
  for (int s = 0; s < static_cast<int>(streams_.size()); ++s) {
    Stream& stream = *streams_[static_cast<std::size_t>(s)];
    moved = stream.read_once() || moved;
    if (!stream.idle() || start_next(s)) moved = stream.write_once() || moved;
    if (stream.idle()) finish_chunk(s);
  }
  return moved;
}

void Link::beat() {
  for (std::size_t s = 0; open_ && s < streams_.size(); ++s) {
    if (!streams_[s]->idle() || sending_[s] != nullptr) continue;
    streams_[s]->start(Beat{});
    streams_[s]->write_once();
  }
}

Deadline::Clock::time_point Link::heard_at() const {
  auto least = Deadline::Clock::time_point::max();
  for (const auto& stream : streams_) {
    if (!open_ || stream->stalled()) return Deadline::Clock::time_point::max();
    least = std::min(least, stream->heard_at());
  }
  return least;
}

void Link::detach() {
  for (const auto& stream : streams_)
    if (stream != nullptr) stream->detach();
  sends_.clear();
  receives_.clear();
}

bool Link::start_next(int stream) {
  for (const MessagePointer& message : sends_) {
    if (!message->stripes.has_next(stream)) continue;
    ChunkHeader header;
    header.number = message->number;
    header.size = message->size;
    header.offset = message->stripes.next(stream) * kChunkBytes;
    header.length =
        static_cast<std::uint32_t>(std::min(kChunkBytes, message->size - header.offset));
    const auto at = static_cast<std::size_t>(stream);
    streams_[at]->start(header, message->memory + header.offset);
    sending_[at] = message;
    return true;
  }
  return false;
}

void Link::finish_chunk(int stream) {
  const MessagePointer message = std::move(sending_[static_cast<std::size_t>(stream)]);
  if (message == nullptr) return;
  message->advance(stream);
  if (message->complete) std::erase(sends_, message);
}

MessagePointer Link::find_receive(std::uint64_t number) const {
  for (const MessagePointer& message : receives_)
    if (message->number == number) return message;
  return nullptr;
}

void Link::check(const Message& message, int stream, const ChunkHeader& header) const {
  if (header.size != message.size)
    throw ProtocolError(fmt::format("it sent a message of {} bytes where {} expects {}",
                                    header.size, own_name_, message.size));
  if (header.offset != message.stripes.next(stream) * kChunkBytes)
    throw ProtocolError(fmt::format("it sent chunk {} of message {} where chunk {} was due",
                                    header.offset / kChunkBytes, header.number,
                                    message.stripes.next(stream)));
}

std::optional<std::byte*> Link::place(int stream, const ChunkHeader& header) {
  if (const MessagePointer message = find_receive(header.number)) {
    check(*message, stream, header);
    return message->memory + header.offset;
  }
  if (header.number < next_receive_)
    throw ProtocolError(fmt::format("it sent a chunk of message {} again", header.number));
  if (!streams_[static_cast<std::size_t>(stream)]->hung_up()) return std::nullopt;
  // Nothing follows but what the peer said when it went; that must be heard now.
  early_bytes_ += header.length;
  if (early_bytes_ > kMaxEarlyBytes)
    throw ProtocolError(
        fmt::format("it left more than {} bytes that no receive asked for", kMaxEarlyBytes));
  early_.push_back({stream, header, std::vector<std::byte>(header.length)});
  return early_.back().bytes.data();
}

void Link::arrived(int stream, const ChunkHeader& header) {
  const MessagePointer message = find_receive(header.number);
  const auto early = std::find_if(early_.begin(), early_.end(), [&](const EarlyChunk& chunk) {
    return chunk.stream == stream && !chunk.arrived;
  });
  if (early != early_.end()) {
    early->arrived = true;
    if (message != nullptr) deliver_early(*message);
  } else {
    deliver(*message, stream);
  }
}

void Link::deliver(Message& message, int stream) {
  message.advance(stream);
  if (message.complete)
    std::erase_if(receives_, [&](const MessagePointer& m) { return m.get() == &message; });
}

void Link::deliver_early(Message& message) {
  const std::uint64_t number = message.number;
  for (auto chunk = early_.begin(); chunk != early_.end();) {
    if (chunk->header.number != number || !chunk->arrived) {
      ++chunk;
      continue;
    }
    check(message, chunk->stream, chunk->header);
    if (!chunk->bytes.empty())
      std::memcpy(message.memory + chunk->header.offset, chunk->bytes.data(), chunk->bytes.size());
    early_bytes_ -= chunk->bytes.size();
    const int stream = chunk->stream;
    chunk = early_.erase(chunk);
    deliver(message, stream);
  }
}

}  // namespace cohort::transport::tcp
