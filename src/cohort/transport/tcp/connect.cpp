// How an engine's connections come about and end.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cstring>

#include "cohort/base/byte_io.h"
#include "cohort/base/error.h"
#include "cohort/base/log.h"
#include "cohort/base/socket.h"
#include "cohort/base/text.h"
#include "cohort/transport/host.h"
#include "cohort/transport/tcp/engine.h"

namespace cohort::transport::tcp {

namespace {

constexpr std::uint64_t kListenerId = 0;
constexpr std::uint64_t kWakeupId = 1;
// Connections that have not proven yet who they are; past this the oldest goes.
constexpr std::size_t kMaxUnproven = 1024;
// How long a goodbye may wait for a peer that takes its last chunk.
constexpr auto kGoodbyeLimit = std::chrono::milliseconds(50);

bool only_loopback(const std::string& host) {
  if (host.empty()) return false;
  for (const SocketAddress& address :
       resolve(Endpoint::tcp(host, 0), Deadline::after(std::chrono::seconds(10))))
    if (!address.is_loopback()) return false;
  return true;
}

std::string address_key(const std::string& id, int rank) {
  return fmt::format("{}/tcp/{}", id, rank);
}

// TLS is keyed to the group, so that a connection cannot be passed on to another one.
Digest tls_key(const Secret& secret, const std::string& id) {
  return hmac_sha256(secret.bytes(), {"cohort tls 1: pre-shared key of a group", id});
}

UniqueFd begin_connect(const SocketAddress& address) {
  UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) throw SystemError("make a socket", errno);
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(socket.get(), address.get(), address.size) != 0 && errno != EINPROGRESS)
    throw PeerError(fmt::format("its address {} does not answer: {}",
                                address.endpoint().to_string(), std::strerror(errno)));
  return socket;
}

}  // namespace

Engine::Engine(TcpOptions options, std::shared_ptr<Rendezvous> rendezvous, Deadline deadline)
    : options_(std::move(options)), rendezvous_(std::move(rendezvous)) {
  if (options_.name.empty()) options_.name = fmt::format("rank {}", options_.rank);
  if (options_.streams < 0 || options_.streams > kMaxStreams)
    throw InvalidInput(fmt::format("{} streams to each peer", options_.streams),
                       {.advice = fmt::format("Choose 0 to {}.", kMaxStreams)});
  if (!options_.secret && !options_.insecure && !only_loopback(options_.bind_host))
    throw InvalidInput(
        fmt::format("the group '{}' can be reached from the network through '{}', and the job has "
                    "no secret",
                    options_.id, options_.bind_host),
        {.advice = "Give every task the same COHORT_SECRET_FILE=FILE, or accept the risk with "
                   "COHORT_INSECURE=1."});
  if (options_.tls) {
    if (!options_.secret)
      throw InvalidInput("TLS takes its key from the job's secret, and the job has none",
                         {.advice = "Give every task the same COHORT_SECRET_FILE=FILE."});
    tls_ = std::make_unique<TlsContext>(tls_key(*options_.secret, options_.id));
  }
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  wakeup_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!epoll_ || !wakeup_) throw SystemError("make an event queue", errno);
  listener_ = listen_on(Endpoint::tcp(options_.bind_host, 0));
  for (const auto& [fd, id] :
       {std::pair(listener_.get(), kListenerId), std::pair(wakeup_.get(), kWakeupId)}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = id;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      throw SystemError("watch a socket", errno);
  }
  publish(deadline);
}

Engine::~Engine() = default;

// "PORT plain|tls HOST NAME"
void Engine::publish(Deadline deadline) {
  const Endpoint here = local_endpoint(listener_.get());
  std::string host = options_.advertise;
  if (host.empty()) host = options_.bind_host.empty() ? host_name() : here.host();
  rendezvous_->set(
      address_key(options_.id, options_.rank),
      fmt::format("{} {} {} {}", here.port(), options_.tls ? "tls" : "plain", host, options_.name),
      deadline);
}

Engine::Address Engine::look_up(int peer, Deadline deadline) {
  const auto words = split(rendezvous_->get(address_key(options_.id, peer), deadline), ' ');
  const auto port = words.size() >= 4 ? parse_unsigned(words[0]) : std::nullopt;
  if (!port || *port == 0 || *port > 65535)
    throw ProtocolError("it published something else than an address",
                        {.advice = "Run the same version of Cohort on all hosts."});
  if ((words[1] == "tls") != options_.tls)
    throw InvalidInput(
        fmt::format("it {} TLS, and {} {}", words[1] == "tls" ? "uses" : "does not use",
                    options_.name, options_.tls ? "does" : "does not"),
        {.advice = "Choose TLS on all ranks or on none."});
  return {resolve(Endpoint::tcp(words[2], static_cast<int>(*port)),
                  Deadline::after(std::chrono::seconds(10))),
          join({words.begin() + 3, words.end()}, " ")};
}

HandshakeOptions Engine::handshake_options(const Purpose& purpose) const {
  return {.protocol = kProtocol, .secret = options_.secret, .identity = encode(purpose)};
}

std::unique_ptr<Channel> Engine::make_channel(UniqueFd socket, bool server) const {
  if (tls_) return tls_->make_channel(std::move(socket), server);
  return make_plain_channel(std::move(socket));
}

void Engine::watch(Stream& stream) {
  const std::uint64_t id = next_watch_++;
  watched_[id] = &stream;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stream.fd(), &event) != 0)
    throw SystemError("watch a socket", errno);
}

void Engine::unwatch(const Stream& stream) {
  std::erase_if(watched_, [&](const auto& item) { return item.second == &stream; });
}

void Engine::dial(Entry& entry) {
  Dial& dial = entry.dial;
  const SocketAddress& address = dial.addresses[dial.next_address++];
  int streams = options_.streams;
  if (streams == 0) streams = address.is_loopback() ? 1 : kRemoteStreams;
  try {
    for (int i = 0; i < streams; ++i) {
      const Purpose purpose{
          group_tag(options_.id), options_.rank, options_.size, entry.link->lane(), i, streams,
          options_.name};
      dial.streams.push_back(std::make_unique<Stream>(make_channel(begin_connect(address), false),
                                                      handshake_options(purpose), false));
      watch(*dial.streams.back());
    }
  } catch (const Error& error) {
    hang_up(dial);
    if (dial.next_address < dial.addresses.size()) return this->dial(entry);
    fail_with(*entry.link, error);
  }
}

void Engine::hang_up(Dial& dial) {
  for (const auto& stream : dial.streams) unwatch(*stream);
  dial.streams.clear();
}

void Engine::set_up_dialled(Entry& entry) {
  Dial& dial = entry.dial;
  bool all_proven = true;
  bool connecting = true;
  try {
    for (const auto& stream : dial.streams) {
      connecting = !stream->connected();
      all_proven = stream->set_up() && all_proven;
    }
  } catch (const Error& error) {
    hang_up(dial);
    if (connecting && dial.next_address < dial.addresses.size()) return this->dial(entry);
    return fail_with(*entry.link, error);
  }
  if (!all_proven) return;
  for (const auto& stream : dial.streams) {
    const auto purpose = decode_purpose(stream->peer_identity());
    if (!purpose || purpose->rank != entry.link->peer() || purpose->group != group_tag(options_.id))
      return fail_with(*entry.link, AuthError("another task answered at its address"));
  }
  const int count = static_cast<int>(dial.streams.size());
  for (int i = 0; i < count; ++i) entry.link->attach(i, count, dial.streams[i]);
  dial.streams.clear();
}

void Engine::accept_all() {
  while (UniqueFd socket = accept_ready(listener_.get())) {
    if (incoming_.size() >= kMaxUnproven) {
      unwatch(*incoming_.front());
      incoming_.pop_front();
    }
    const Purpose self{group_tag(options_.id), options_.rank, options_.size, Lane::collective, 0, 1,
                       options_.name};
    incoming_.push_back(std::make_unique<Stream>(make_channel(std::move(socket), true),
                                                 handshake_options(self), true));
    watch(*incoming_.back());
  }
}

// A stranger must not disturb the group: it is turned away, and that is all.
void Engine::set_up_incoming() {
  for (auto it = incoming_.begin(); it != incoming_.end();) {
    bool keep = true;
    try {
      if ((*it)->set_up()) {
        welcome(*it);
        keep = false;
      } else if (Deadline::Clock::now() - (*it)->born() > kHandshakeTimeout) {
        throw TimeoutError("it did not prove in time that it belongs to the job");
      }
    } catch (const Error& error) {
      last_refusal_ = fmt::format("{} ({})", peer_name((*it)->fd()), error.message());
      log::warning("{} turned a connection from {} away", options_.name, last_refusal_);
      unwatch(**it);
      keep = false;
    }
    it = keep ? std::next(it) : incoming_.erase(it);
  }
}

void Engine::welcome(std::unique_ptr<Stream>& stream) {
  const auto purpose = decode_purpose(stream->peer_identity());
  if (!purpose || purpose->group != group_tag(options_.id) || purpose->size != options_.size ||
      purpose->rank <= options_.rank) {
    throw AuthError("it belongs to another group");
  }
  Entry& target = entry(purpose->rank, purpose->lane);
  if (!target.link->attach(purpose->stream, purpose->streams, stream))
    throw AuthError("that rank is connected already");
  target.link->set_peer_name(purpose->name);
}

void Engine::say_goodbye(const Goodbye& goodbye) {
  if (std::exchange(said_goodbye_, true)) return;
  std::vector<Stream*> streams;
  for (auto& [key, entry] : entries_)
    for (const auto& stream : entry.link->streams())
      if (stream != nullptr) streams.push_back(stream.get());
  const Deadline limit = Deadline::after(kGoodbyeLimit);
  std::vector<bool> told(streams.size());
  while (!streams.empty()) {
    std::vector<pollfd> waiting;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      Outbound& outbound = streams[i]->outbound();
      while (streams[i]->write_once()) continue;
      if (!told[i] && outbound.idle()) {
        outbound.start(goodbye);
        told[i] = true;
        while (streams[i]->write_once()) continue;
      }
      if (!outbound.idle() && !streams[i]->hung_up())
        waiting.push_back({streams[i]->fd(), POLLOUT, 0});
    }
    if (waiting.empty() || limit.expired()) break;
    ::poll(waiting.data(), waiting.size(), limit.poll_timeout_ms());
    for (Stream* stream : streams) stream->note_events(EPOLLOUT);
  }
  for (Stream* stream : streams) stream->finish();
}

}  // namespace cohort::transport::tcp
