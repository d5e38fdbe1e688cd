#include "cohort/ps/wire/connection.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"
#include "cohort/base/net/authenticated_channel.h"
#include "cohort/base/net/bulk_frames.h"

namespace cohort::ps {

namespace {

// What one call reads or writes at most.
constexpr std::size_t kBudget = std::size_t{1} << 20;
constexpr std::uint32_t kGone = EPOLLHUP | EPOLLERR;
constexpr std::size_t kMessagePrefix = 8 + 4;
constexpr std::size_t kMaxPayload = kMessagePrefix + kMaxControlBytes;

}  // namespace

// A message's prefix and control part, out of frames and for the owner.
class Connection::Messages : public FrameHandler {
 public:
  explicit Messages(ConnectionOwner& owner) : owner_(owner) {}

  std::optional<Bulk> frame(std::string_view payload) override {
    if (payload.size() < kMessagePrefix)
      throw ProtocolError(fmt::format("a message has {} bytes; at least {} expected",
                                      payload.size(), kMessagePrefix));
    const auto bytes = get_integer<std::uint64_t>(payload.data());
    if (bytes > kMaxBulkBytes)
      throw ProtocolError(
          fmt::format("a message announces {} bytes; at most {} allowed", bytes, kMaxBulkBytes));
    control_ = payload.substr(kMessagePrefix);
    memory_ = nullptr;
    bulk_ = {bytes, get_integer<std::uint32_t>(payload.data() + 8)};
    if (bytes == 0) return std::nullopt;
    return bulk_;
  }
  std::optional<std::byte*> place() override {
    const auto memory = owner_.place(control_, bulk_.bytes);
    if (memory) memory_ = *memory;
    return memory;
  }
  void complete(UniqueFd file) override {
    owner_.received(control_, memory_, bulk_.bytes, std::move(file));
  }

 private:
  ConnectionOwner& owner_;
  std::string_view control_;  // in the reader
  Bulk bulk_;
  std::byte* memory_ = nullptr;
};

struct Connection::State {
  State(std::unique_ptr<Channel> to, const HandshakeOptions& options, bool server,
        ConnectionOwner& who)
      : owner(who), channel(std::move(to), options, server), messages(who) {}

  void open();
  void read();
  void write();
  void start_message();

  ConnectionOwner& owner;
  AuthenticatedChannel channel;
  Messages messages;
  std::optional<BulkFrameReader> reader;  // once open
  std::optional<BulkFrameWriter> writer;
  Outgoing outgoing;
  std::string payload;  // of the frame that is written
  bool wants_to_write = true;
  bool write_failed = false;  // what the peer said before may still be read
  bool more_to_read = false;  // the channel may hold bytes that epoll does not know of
};

void Connection::State::open() {
  reader.emplace(channel.make_decoder(kMaxPayload), kMaxPayload, messages);
  writer.emplace(channel.make_encoder(kMaxPayload));
  more_to_read = true;
  owner.opened(channel.peer_identity());
}

void Connection::State::read() {
  more_to_read = false;
  std::array<iovec, 2> places;
  for (std::size_t budget = kBudget; budget > 0;) {
    const int count = reader->prepare(places);
    if (count == 0) return;
    const IoResult result = channel.channel().read(places.data(), count);
    if (result.status == IoResult::Status::would_block) return;
    if (result.status != IoResult::Status::progress) throw_gone(result);
    reader->commit(result.count, channel.channel().take_file());
    budget -= std::min(budget, result.count);
  }
  more_to_read = true;
}

void Connection::State::start_message() {
  if (outgoing.bulk_bytes > kMaxBulkBytes)
    throw InvalidInput(fmt::format("a message with {} bytes; at most {} allowed",
                                   outgoing.bulk_bytes, kMaxBulkBytes));
  payload.clear();
  ByteWriter(payload)
      .integer(static_cast<std::uint64_t>(outgoing.bulk_bytes))
      .integer(crc32c(outgoing.bulk, outgoing.bulk_bytes));
  payload += outgoing.control;
  writer->start(payload, outgoing.bulk, outgoing.bulk_bytes, outgoing.file);
}

void Connection::State::write() {
  std::array<iovec, 2> places;
  for (std::size_t budget = kBudget; budget > 0;) {
    if (writer->idle()) {
      outgoing.control.clear();
      outgoing.bulk = nullptr;
      outgoing.bulk_bytes = 0;
      outgoing.file = -1;
      if (!owner.produce(outgoing)) {
        wants_to_write = false;
        return;
      }
      start_message();
    }
    if (channel.channel().passes_files() && writer->file() >= 0)
      channel.channel().attach(writer->file());
    const IoResult result = channel.channel().write(places.data(), writer->prepare(places));
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

Connection::Connection(std::unique_ptr<Channel> channel, const HandshakeOptions& handshake,
                       bool server, ConnectionOwner& owner)
    : state_(std::make_unique<State>(std::move(channel), handshake, server, owner)) {}

Connection::Connection(UniqueFd unix_socket, const HandshakeOptions& handshake, bool server,
                       ConnectionOwner& owner)
    : Connection(make_unix_channel(std::move(unix_socket)), handshake, server, owner) {}

Connection::~Connection() = default;

int Connection::fd() const { return state_->channel.fd(); }
bool Connection::is_open() const { return state_->reader.has_value(); }
bool Connection::is_unix() const { return state_->channel.channel().passes_files(); }
void Connection::wake() { state_->wants_to_write = true; }

void Connection::resume() {
  if (state_->reader && state_->reader->stalled()) state_->more_to_read = true;
}

void Connection::on_events(std::uint32_t events) {
  State& state = *state_;
  if (!state.reader) {
    if (!state.channel.set_up()) return;
    state.open();
  }
  if (state.reader->stalled()) {
    if (state.more_to_read) state.reader->resume();
    if (state.reader->stalled() && (events & kGone) != 0)
      throw_gone({IoResult::Status::closed, 0, 0});
  }
  if (state.more_to_read || (events & (EPOLLIN | kGone)) != 0) state.read();
  if (state.wants_to_write && !state.write_failed) state.write();
  if (state.write_failed) state.read();
}

std::uint32_t Connection::wanted_events() const {
  const State& state = *state_;
  if (!state.reader) return state.channel.wanted_events();
  std::uint32_t events = state.reader->stalled() ? 0 : static_cast<std::uint32_t>(EPOLLIN);
  // A writable socket is reported at once: that is how it comes back to bytes it already has.
  if (state.more_to_read || (state.wants_to_write && !state.write_failed)) events |= EPOLLOUT;
  return events;
}

std::unique_ptr<TlsContext> make_tls_context(const Secret& secret, const std::string& job) {
  return std::make_unique<TlsContext>(
      hmac_sha256(secret.bytes(), {"cohort tls 1: pre-shared key of parameter servers", job}));
}

}  // namespace cohort::ps
