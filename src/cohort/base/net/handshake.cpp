#include "cohort/base/net/handshake.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/error.h"
#include "cohort/base/net/socket.h"

namespace cohort {
namespace {

// Offsets in both hellos:
//   0 magic[8]  8 version u16  10 mode u8  11 status u8  12 protocol u32  16 nonce[32]
//   48 identity length u16  50 identity[126], zero-padded
constexpr std::string_view kMagic("COHORT\r\n", 8);
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kNonceAt = 16;
constexpr std::size_t kIdentityAt = 48;
constexpr std::size_t kHelloSize = kIdentityAt + 2 + kMaxIdentity;
constexpr std::size_t kProofSize = sizeof(Digest);
constexpr std::size_t kServerHelloSize = kHelloSize + kProofSize;

constexpr std::string_view kServerLabel = "cohort handshake 1: server";
constexpr std::string_view kClientLabel = "cohort handshake 1: client";
constexpr std::string_view kClientToServer = "cohort session 1: client to server";
constexpr std::string_view kServerToClient = "cohort session 1: server to client";

enum class Mode : std::uint8_t { open = 0, secret = 1 };
enum class Status : std::uint8_t { ok = 0, wrong_version = 1, wrong_protocol = 2, wrong_mode = 3 };

struct Hello {
  std::uint16_t version = kVersion;
  Mode mode = Mode::open;
  Status status = Status::ok;
  std::uint32_t protocol = 0;
  std::string identity;
};

std::string_view key_of(const HandshakeOptions& options) {
  static constexpr char kOpenKey[Secret::kSize] = {};
  return options.secret ? options.secret->bytes() : std::string_view(kOpenKey, sizeof kOpenKey);
}

Mode mode_of(const HandshakeOptions& options) { return options.secret ? Mode::secret : Mode::open; }

std::string encode_hello(const HandshakeOptions& options, Status status) {
  std::string bytes(kMagic);
  ByteWriter(bytes)
      .integer(kVersion)
      .integer(static_cast<std::uint8_t>(mode_of(options)))
      .integer(static_cast<std::uint8_t>(status))
      .integer(options.protocol);
  bytes.resize(kHelloSize);
  fill_random(bytes.data() + kNonceAt, kIdentityAt - kNonceAt);
  std::string_view identity = std::string_view(options.identity).substr(0, kMaxIdentity);
  put_integer(static_cast<std::uint16_t>(identity.size()), bytes.data() + kIdentityAt);
  std::copy(identity.begin(), identity.end(), bytes.begin() + kIdentityAt + 2);
  return bytes;
}

// Nothing when the bytes are not a hello at all.
std::optional<Hello> decode_hello(std::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic) return std::nullopt;
  ByteReader reader(bytes.substr(kMagic.size()));
  Hello hello;
  hello.version = reader.integer<std::uint16_t>();
  hello.mode = static_cast<Mode>(reader.integer<std::uint8_t>());
  hello.status = static_cast<Status>(reader.integer<std::uint8_t>());
  hello.protocol = reader.integer<std::uint32_t>();
  auto size = get_integer<std::uint16_t>(bytes.data() + kIdentityAt);
  if (size > kMaxIdentity) return std::nullopt;
  hello.identity = bytes.substr(kIdentityAt + 2, size);
  for (char& c : hello.identity)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';  // it is printed
  return hello;
}

SessionKeys derive_keys(std::string_view key, std::string_view transcript) {
  SessionKeys keys;
  Hmac hmac(key);
  keys.client_to_server = hmac({kClientToServer, transcript});
  keys.server_to_client = hmac({kServerToClient, transcript});
  return keys;
}

std::string protocol_name(std::uint32_t id) {
  std::string name;
  for (int i = 0; i < 4; ++i) {
    char c = static_cast<char>(id >> (8 * i) & 0xff);
    name += c >= 0x21 && c <= 0x7e ? c : '?';
  }
  return name;
}

constexpr const char* kGiveSecret =
    "Start every task of the job with the same COHORT_SECRET_FILE, or through one `cohort run`.";

// Everything about a server's hello that makes a client turn away, short of the proof.
void check_server_hello(const std::optional<Hello>& hello, const HandshakeOptions& options,
                        const std::string& peer) {
  if (!hello)
    throw ProtocolError(fmt::format("{} does not speak Cohort's protocol", peer),
                        {.advice = "Check that the address belongs to a task of this job."});
  if (hello->version != kVersion || hello->status == Status::wrong_version)
    throw ProtocolError(fmt::format("{} speaks version {} of Cohort's handshake, we speak {}", peer,
                                    hello->version, kVersion),
                        {.advice = "Use one version of Cohort for all tasks of a job."});
  if (hello->protocol != options.protocol || hello->status == Status::wrong_protocol)
    throw ProtocolError(
        fmt::format("{} serves '{}', not '{}'", peer, protocol_name(hello->protocol),
                    protocol_name(options.protocol)),
        {.advice = "Check that the address is the right one of this job."});
  if (hello->mode != mode_of(options))
    throw AuthError(options.secret
                        ? fmt::format("{} has no secret, but this task has one", peer)
                        : fmt::format("{} demands the job's secret, and this task has none", peer),
                    {.advice = kGiveSecret});
  if (hello->status != Status::ok)
    throw AuthError(fmt::format("{} turned us away", peer), {.advice = kGiveSecret});
}

}  // namespace

SessionKeys::~SessionKeys() {
  wipe(client_to_server.data(), client_to_server.size());
  wipe(server_to_client.data(), server_to_client.size());
}

ServerHandshake::ServerHandshake(const HandshakeOptions& options)
    : options_(options), wanted_(kHelloSize) {}

std::size_t ServerHandshake::feed(std::string_view bytes) {
  std::size_t used = 0;
  while (state_ == State::waiting && used < bytes.size()) {
    std::size_t take = std::min(wanted(), bytes.size() - used);
    input_.append(bytes.substr(used, take));
    used += take;
    std::size_t seen = std::min(input_.size(), kMagic.size());
    if (transcript_.empty() && input_.compare(0, seen, kMagic, 0, seen) != 0)
      fail("it does not speak Cohort's protocol");
    else if (input_.size() == wanted_)
      transcript_.empty() ? on_hello() : on_proof();
  }
  return used;
}

std::string ServerHandshake::take_output() { return std::exchange(output_, {}); }

void ServerHandshake::on_hello() {
  auto hello = decode_hello(input_);
  if (!hello) return fail("it sent a malformed hello");
  Status status = Status::ok;
  if (hello->version != kVersion)
    status = Status::wrong_version;
  else if (hello->protocol != options_.protocol)
    status = Status::wrong_protocol;
  else if (hello->mode != mode_of(options_))
    status = Status::wrong_mode;

  std::string answer = encode_hello(options_, status);
  if (status != Status::ok) {
    answer.resize(kServerHelloSize);  // no proof for a client that will not get in
    output_ = std::move(answer);
    switch (status) {
      case Status::wrong_version:
        return fail(fmt::format("it speaks version {} of the handshake", hello->version));
      case Status::wrong_protocol:
        return fail(fmt::format("it asked for '{}'", protocol_name(hello->protocol)));
      default:
        return fail(options_.secret ? "it has no secret" : "it has a secret, this job has none");
    }
  }
  Digest proof = hmac_sha256(key_of(options_), {kServerLabel, input_, answer});
  answer += as_bytes(proof);
  transcript_ = input_ + answer;
  output_ = std::move(answer);
  result_.peer_identity = std::move(hello->identity);
  input_.clear();
  wanted_ = kProofSize;
}

void ServerHandshake::on_proof() {
  Digest expected = hmac_sha256(key_of(options_), {kClientLabel, transcript_});
  if (!equal_in_constant_time(input_, as_bytes(expected)))
    return fail("it does not know the job's secret");
  transcript_ += input_;
  result_.keys = derive_keys(key_of(options_), transcript_);
  state_ = State::done;
}

void ServerHandshake::fail(std::string failure) {
  failure_ = std::move(failure);
  state_ = State::failed;
}

ClientHandshake::ClientHandshake(const HandshakeOptions& options, std::string peer)
    : options_(options),
      peer_(std::move(peer)),
      output_(encode_hello(options, Status::ok)),
      transcript_(output_) {}

std::size_t ClientHandshake::wanted() const { return done_ ? 0 : kServerHelloSize - input_.size(); }

std::size_t ClientHandshake::feed(std::string_view bytes) {
  const std::size_t take = std::min(wanted(), bytes.size());
  input_.append(bytes.substr(0, take));
  if (!done_ && wanted() == 0) on_answer();
  return take;
}

std::string ClientHandshake::take_output() { return std::exchange(output_, {}); }

void ClientHandshake::on_answer() {
  std::string_view hello_part = std::string_view(input_).substr(0, kHelloSize);
  auto hello = decode_hello(hello_part);
  check_server_hello(hello, options_, peer_);
  Digest expected = hmac_sha256(key_of(options_), {kServerLabel, transcript_, hello_part});
  if (!equal_in_constant_time(std::string_view(input_).substr(kHelloSize), as_bytes(expected)))
    throw AuthError(fmt::format("{} does not know this job's secret", peer_),
                    {.advice = kGiveSecret});

  transcript_ += input_;
  Digest proof = hmac_sha256(key_of(options_), {kClientLabel, transcript_});
  output_ += as_bytes(proof);
  transcript_ += as_bytes(proof);
  result_ = {derive_keys(key_of(options_), transcript_), std::move(hello->identity)};
  done_ = true;
}

namespace {

// A message is short and comes in one piece, so it is enough to look before its first byte.
void receive_message(int fd, void* data, std::size_t size, Deadline deadline,
                     const std::string& peer, const Check& check) {
  wait_checking(check, deadline, [&](Deadline slice) {
    if (!wait_ready(fd, POLLIN, slice))
      throw TimeoutError(fmt::format("{} said nothing in time", peer));
  });
  recv_all(fd, data, size, deadline, peer);
}

}  // namespace

HandshakeResult client_handshake(int fd, const HandshakeOptions& options, Deadline deadline,
                                 const std::string& peer, const Check& check) {
  ClientHandshake handshake(options, peer);
  send_all(fd, handshake.take_output(), deadline, peer);
  std::string answer(handshake.wanted(), '\0');
  receive_message(fd, answer.data(), answer.size(), deadline, peer, check);
  handshake.feed(answer);
  send_all(fd, handshake.take_output(), deadline, peer);
  return handshake.result();
}

HandshakeResult server_handshake(int fd, const HandshakeOptions& options, Deadline deadline,
                                 const std::string& peer, const Check& check) {
  Deadline limit = Deadline::after(kHandshakeTimeout);
  if (!deadline.is_never() && deadline.when() < limit.when()) limit = deadline;
  ServerHandshake handshake(options);
  char buffer[kHelloSize];
  while (handshake.state() == ServerHandshake::State::waiting) {
    std::size_t size = handshake.wanted();
    receive_message(fd, buffer, size, limit, peer, check);
    handshake.feed({buffer, size});
    send_all(fd, handshake.take_output(), limit, peer);
  }
  if (handshake.state() == ServerHandshake::State::failed)
    throw AuthError(fmt::format("turned {} away: {}", peer, handshake.failure()),
                    {.advice = kGiveSecret});
  return handshake.result();
}

}  // namespace cohort
