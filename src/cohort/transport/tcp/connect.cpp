// How an engine's connections come about and end.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cstring>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/net/pacing.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/process/limits.h"
#include "cohort/base/process/wait_interrupt.h"
#include "cohort/base/text.h"
#include "cohort/transport/host.h"
#include "cohort/transport/tcp/engine.h"

namespace cohort::transport::tcp {

namespace {

constexpr std::uint64_t kWakeupId = 1;
constexpr std::uint64_t kProbeId = ~std::uint64_t{0};
// How long a look into the rendezvous may hold up the other transfers, and how often a peer that is
// not connected is looked up again: it may have aborted.
constexpr auto kLookUpSlice = std::chrono::milliseconds(20);
constexpr auto kLookUpPeriod = std::chrono::milliseconds(100);
// How long the rendezvous may take to say whether a peer whose connection failed had aborted. The
// answer is there already, so only a rendezvous that is gone or overloaded takes that long.
constexpr auto kLastLookLimit = std::chrono::milliseconds(1000);
// The notice of an abort is left behind within this time, or not at all.
constexpr auto kPublishEndLimit = std::chrono::milliseconds(500);
// A peer with too many unproven connections drops some: those of its own peers dial again. One that
// has died refuses the next connection, so this costs it nothing.
constexpr int kMaxTries = 10;
constexpr auto kFirstPause = std::chrono::milliseconds(5);
constexpr auto kLongestPause = std::chrono::milliseconds(200);

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
  avoid_pacing(socket.get(), address);
  if (::connect(socket.get(), address.get(), address.size) != 0 && errno != EINPROGRESS)
    throw PeerError(fmt::format("its address {} does not answer: {}",
                                address.endpoint().to_string(), std::strerror(errno)));
  return socket;
}

TcpOptions with_name(TcpOptions options) {
  if (options.name.empty()) options.name = fmt::format("rank {}", options.rank);
  return options;
}

}  // namespace

Engine::Engine(TcpOptions options, std::shared_ptr<Rendezvous> rendezvous, Deadline deadline)
    : options_(with_name(std::move(options))),
      rendezvous_(std::move(rendezvous)),
      refusals_(options_.name, "connections refused"),
      shortages_(options_.name, "pauses of accepting") {
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
  raise_file_limit(kWantedFiles);
  max_unproven_ = unauthenticated_limit();
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  wakeup_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!epoll_ || !wakeup_) throw SystemError("make an event queue", errno);
  listener_ = listen_on(Endpoint::tcp(options_.bind_host, 0));
  avoid_pacing_of_accepted(listener_.get());
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

// "end KIND CULPRIT TEXT": peers that are not connected find it where they look for the address.
void Engine::publish_end(const AbortNotice& notice) {
  rendezvous_->set(address_key(options_.id, options_.rank),
                   fmt::format("end {} {} {}", notice.kind, notice.culprit, notice.text),
                   Deadline::after(kPublishEndLimit));
}

Engine::Address Engine::look_up(int peer, bool only_end, Deadline deadline) {
  const auto words = split(rendezvous_->get(address_key(options_.id, peer), deadline), ' ');
  const auto rest = [&] { return join({words.begin() + 3, words.end()}, " "); };
  if (words.size() >= 4 && words[0] == "end")
    return {{},
            {},
            AbortNotice{static_cast<std::uint32_t>(parse_unsigned(words[1]).value_or(0)),
                        static_cast<int>(parse_unsigned(words[2]).value_or(-1)), rest()}};
  if (only_end) return {};  // a name server may be out of reach, too
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
          rest(),
          {}};
}

Engine::TimePoint Engine::open_links(Lock& lock, Deadline deadline) {
  TimePoint next = TimePoint::max();
  // Entries are never removed, so that this walk survives the look-ups, which are not locked.
  for (auto& [key, entry] : entries_) {
    Dial& dial = entry.dial;
    if (!dial.failure && (entry.link->is_open() || !entry.link->wanted())) continue;
    if ((dial.failure || Deadline::Clock::now() >= dial.next_look) &&
        !refresh(lock, entry, deadline))
      return next;
    go_on(entry);
    if (broken_) return next;
    if (!entry.link->is_open()) next = std::min(next, dial.failure ? TimePoint() : dial.next_look);
    if (!entry.link->is_open() && dial.next_try > Deadline::Clock::now())
      next = std::min(next, dial.next_try);
  }
  return next;
}

// Looks the peer up, again perhaps; the engine breaks where it ended or failed. False then.
bool Engine::refresh(Lock& lock, Entry& entry, Deadline deadline) {
  const Link& link = *entry.link;
  const bool failed = entry.dial.failure.has_value();
  const bool has_address = !entry.dial.addresses.empty();
  const TimePoint soon = Deadline::Clock::now() + (failed ? kLastLookLimit : kLookUpSlice);
  Address found;
  std::optional<Breakage> failure;
  lock.unlock();
  try {
    found =
        look_up(link.peer(), failed || has_address, Deadline::at(std::min(deadline.when(), soon)));
  } catch (const TimeoutError&) {
  } catch (const Interrupted&) {
    tell_interrupt();
    throw;
  } catch (const Error& error) {
    failure = {Breakage::Kind::peer, link.peer(),
               fmt::format("rank {} cannot be found: {}", link.peer(), error.message()),
               error.context().advice};
  }
  lock.lock();
  if (found.end)
    failure = {Breakage::Kind::peer, found.end->culprit, found.end->text, {}, found.end};
  else if (entry.dial.failure)
    failure = entry.dial.failure;
  if (failure) fail(std::move(*failure));
  if (broken_) return false;
  if (!found.sockets.empty()) {
    entry.dial.addresses = std::move(found.sockets);
    entry.link->set_peer_name(found.name);
  }
  if (!entry.dial.addresses.empty()) entry.dial.next_look = Deadline::Clock::now() + kLookUpPeriod;
  return true;
}

void Engine::go_on(Entry& entry) {
  Dial& dial = entry.dial;
  if (dial.addresses.empty()) return;
  if (entry.link->peer() > options_.rank)
    probe(entry);
  else if (!dial.streams.empty())
    set_up_dialled(entry);
  else if (!dial.failure && Deadline::Clock::now() >= dial.next_try)
    this->dial(entry);
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
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stream.fd(), &event) != 0)
    throw SystemError("watch a socket", errno);
  watched_[id] = &stream;
  stream.watch_id = id;
}

void Engine::unwatch(const Stream& stream) { watched_.erase(stream.watch_id); }

void Engine::dial(Entry& entry) {
  Dial& dial = entry.dial;
  const SocketAddress& address = dial.addresses[dial.next_address++];
  int streams = options_.streams;
  if (streams == 0) streams = address.is_loopback() ? 1 : kRemoteStreams;
  dial.streams.resize(static_cast<std::size_t>(streams));
  try {
    for (int i = 0; i < streams; ++i) dial_stream(entry, i);
  } catch (const Error& error) {
    dial_failed(entry, error, true);
  }
}

void Engine::dial_stream(Entry& entry, int index) {
  Dial& dial = entry.dial;
  const Purpose purpose{
      group_tag(options_.id), options_.rank, options_.size,
      entry.link->lane(),     index,         static_cast<int>(dial.streams.size()),
      options_.name};
  auto stream = std::make_unique<Stream>(
      make_channel(begin_connect(dial.addresses[dial.next_address - 1]), false),
      handshake_options(purpose), false);
  watch(*stream);
  dial.streams[static_cast<std::size_t>(index)] = std::move(stream);
}

bool Engine::may_try_again(Dial& dial) {
  if (dial.tries >= kMaxTries) return false;
  const auto pause =
      std::min<Deadline::Clock::duration>(kFirstPause * (1 << dial.tries++), kLongestPause);
  dial.next_try = Deadline::Clock::now() + pause;
  return true;
}

// The next address is tried, or this one again after a pause where this process lacked a
// descriptor, or the rendezvous asked whether the peer ended by itself.
void Engine::dial_failed(Entry& entry, const Error& error, bool connecting) {
  Dial& dial = entry.dial;
  hang_up(dial);
  if (connecting && dial.next_address < dial.addresses.size()) return this->dial(entry);
  if (is_shortage(error) && may_try_again(dial)) {
    --dial.next_address;
    return;
  }
  entry.dial.failure = breakage_of(*entry.link, error);
}

void Engine::hang_up(Dial& dial) {
  for (const auto& stream : dial.streams)
    if (stream != nullptr) unwatch(*stream);
  dial.streams.clear();
}

void Engine::set_up_dialled(Entry& entry) {
  Dial& dial = entry.dial;
  bool all_proven = true;
  bool connecting = true;
  try {
    for (std::size_t i = 0; i < dial.streams.size(); ++i) {
      auto& stream = dial.streams[i];
      connecting = stream == nullptr || !stream->connected();
      if (stream == nullptr && Deadline::Clock::now() >= dial.next_try)
        dial_stream(entry, static_cast<int>(i));
      all_proven = stream != nullptr && set_up_stream(dial, stream) && all_proven;
    }
  } catch (const Error& error) {
    return dial_failed(entry, error, connecting);
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

// One that the peer dropped before it was proven is dialled again; the others stay.
bool Engine::set_up_stream(Dial& dial, std::unique_ptr<Stream>& stream) {
  try {
    return stream->set_up();
  } catch (const PeerError&) {
    if (!stream->connected() || !may_try_again(dial)) throw;
    unwatch(*stream);
    stream.reset();
    return false;
  }
}

// A probe says nothing, so the peer hangs up now and then; only a refusal means that it is gone.
void Engine::probe(Entry& entry) {
  UniqueFd& socket = entry.dial.probe;
  try {
    if (!socket) {
      socket = begin_connect(entry.dial.addresses.front());
      epoll_event event{};
      event.events = EPOLLRDHUP;
      event.data.u64 = kProbeId;
      if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0)
        throw SystemError("watch a socket", errno);
    }
    char byte;
    const ssize_t count = ::recv(socket.get(), &byte, 1, MSG_DONTWAIT);
    const int code = errno;
    if (count < 0 && (code == EAGAIN || code == ENOTCONN || code == EINTR)) return;
    socket.reset();
    if (count < 0 && code == ECONNREFUSED)
      throw PeerError(fmt::format("its address does not answer: {}", std::strerror(code)));
    entry.dial.next_look = {};
  } catch (const Error& error) {
    socket.reset();
    if (!is_shortage(error)) entry.dial.failure = breakage_of(*entry.link, error);
  }
}

}  // namespace cohort::transport::tcp
