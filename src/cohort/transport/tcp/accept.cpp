// How an engine's connections are accepted, and how it ends.
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/process/limits.h"
#include "cohort/transport/tcp/engine.h"

namespace cohort::transport::tcp {

namespace {

constexpr int kAcceptsPerRound = 64;
// How long a goodbye may wait for a peer that takes its last chunk.
constexpr auto kGoodbyeLimit = std::chrono::milliseconds(50);

}  // namespace

void Engine::accept_all() {
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    AcceptResult result = try_accept(listener_.get());
    if (result.is_exhausted()) return pause_accepting(accept_failure(result.code));
    if (!result.socket) return;
    make_room(result.socket.get());
    const Purpose self{group_tag(options_.id), options_.rank, options_.size, Lane::collective, 0, 1,
                       options_.name};
    incoming_.push_back(std::make_unique<Stream>(make_channel(std::move(result.socket), true),
                                                 handshake_options(self), true));
    try {
      watch(*incoming_.back());
    } catch (const SystemError& error) {
      incoming_.pop_back();
      return pause_accepting(error.what());
    }
  }
}

// Of those that have not proven themselves, one that has said nothing goes first: a peer does so
// at once. A peer that is hit all the same dials again.
void Engine::make_room(int newest) {
  if (incoming_.empty()) return;
  if (incoming_.size() < max_unproven_ && !is_short_of_files(newest)) return;
  auto leaving = std::ranges::find_if(
      incoming_, [](const auto& stream) { return !stream->heard_something(); });
  if (leaving == incoming_.end()) leaving = incoming_.begin();
  unwatch(**leaving);
  incoming_.erase(leaving);
}

// The connection stays in the system's queue, and what is open already goes on.
void Engine::pause_accepting(const std::string& reason) {
  shortages_.warning(reason);
  watch_listener(0);
  accept_again_ = Deadline::Clock::now() + kAcceptPause;
}

void Engine::resume_accepting() {
  if (Deadline::Clock::now() < accept_again_) return;
  accept_again_ = TimePoint::max();
  watch_listener(EPOLLIN);
}

void Engine::watch_listener(std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = kListenerId;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event) != 0)
    throw SystemError("watch a socket", errno);
}

// An unauthenticated peer must not disturb the group: it is refused, and that is all.
void Engine::set_up_incoming(TimePoint now) {
  for (auto it = incoming_.begin(); it != incoming_.end();) {
    bool keep = true;
    try {
      if ((*it)->has_news() && (*it)->set_up()) {
        welcome(*it);
        keep = false;
      } else if (now - (*it)->born() > kHandshakeTimeout) {
        throw TimeoutError("it did not prove in time that it belongs to the job");
      }
    } catch (const Error& error) {
      const bool silent =
          !(*it)->heard_something() && dynamic_cast<const AuthError*>(&error) == nullptr;
      if (!silent) {  // a peer that waits for this rank says nothing
        last_refusal_ = fmt::format("{} ({})", peer_name((*it)->fd()), error.message());
        refusals_.warning(fmt::format("turned a connection from {} away", last_refusal_));
      }
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
      while (streams[i]->write_once()) continue;
      if (!told[i] && streams[i]->idle()) {
        streams[i]->start(goodbye);
        told[i] = true;
        while (streams[i]->write_once()) continue;
      }
      if (!streams[i]->idle() && !streams[i]->hung_up())
        waiting.push_back({streams[i]->fd(), POLLOUT, 0});
    }
    if (waiting.empty() || limit.expired()) break;
    ::poll(waiting.data(), waiting.size(), limit.poll_timeout_ms());
    for (Stream* stream : streams) stream->note_events(EPOLLOUT);
  }
  // A peer that was not told reads the end when the engine goes: it then looks into the rendezvous,
  // where the reason must be by that time.
  for (std::size_t i = 0; i < streams.size(); ++i)
    if (told[i]) streams[i]->finish();
}

}  // namespace cohort::transport::tcp
