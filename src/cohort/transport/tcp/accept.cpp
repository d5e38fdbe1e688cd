// Who comes in, and how an engine goes.
#include <poll.h>
#include <sys/epoll.h>

#include "cohort/base/error.h"
#include "cohort/base/log.h"
#include "cohort/base/socket.h"
#include "cohort/transport/tcp/engine.h"

namespace cohort::transport::tcp {

namespace {

// Connections that have not proven yet who they are; past this the oldest goes.
constexpr std::size_t kMaxUnproven = 1024;
// How long a goodbye may wait for a peer that takes its last chunk.
constexpr auto kGoodbyeLimit = std::chrono::milliseconds(50);

}  // namespace

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
      const bool silent =
          !(*it)->heard_something() && dynamic_cast<const AuthError*>(&error) == nullptr;
      if (!silent) {  // a peer that waits for this rank says nothing
        last_refusal_ = fmt::format("{} ({})", peer_name((*it)->fd()), error.message());
        log::warning("{} turned a connection from {} away", options_.name, last_refusal_);
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
  // A peer that was not told reads the end when the engine goes: it then looks into the rendezvous,
  // where the reason must be by that time.
  for (std::size_t i = 0; i < streams.size(); ++i)
    if (told[i]) streams[i]->finish();
}

}  // namespace cohort::transport::tcp
