#include "cohort/transport/tcp/engine.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/net/silence_watch.h"
#include "cohort/base/process/wait_interrupt.h"

namespace cohort::transport::tcp {

namespace {
constexpr unsigned kRoundsBetweenPolls = 16;
// Most peers that should connect do so before they are looked for.
constexpr auto kProbeAfter = std::chrono::milliseconds(40);
constexpr auto kSweepPeriod = std::chrono::milliseconds(50);

}  // namespace

void Breakage::raise() const {
  const ErrorContext context{.advice = advice, .peer_rank = culprit};
  switch (kind) {
    case Kind::timeout:
      throw TimeoutError(text, context);
    case Kind::protocol:
      throw ProtocolError(text, context);
    case Kind::auth:
      throw AuthError(text, context);
    case Kind::peer:
      break;
  }
  throw PeerError(text, context);
}

Engine::Entry& Engine::entry(int peer, Lane lane) {
  auto [it, is_new] = entries_.try_emplace({peer, lane});
  if (is_new) {
    it->second.link =
        std::make_unique<Link>(peer, lane, options_.name, fmt::format("rank {}", peer));
    if (peer > options_.rank) it->second.dial.next_look = Deadline::Clock::now() + kProbeAfter;
  }
  return it->second;
}

MessagePointer Engine::post(bool is_send, int peer, Lane lane, std::byte* memory,
                            std::size_t size) {
  COHORT_CHECK(peer >= 0 && peer < options_.size && peer != options_.rank,
               "rank {} has no peer {} among {}", options_.rank, peer, options_.size);
  Lock lock(mutex_);
  if (broken_) broken_->raise();
  Entry& target = entry(peer, lane);
  const MessagePointer message = target.link->post(is_send, memory, size);
  // A small message is on its way before the caller waits.
  if (is_send && target.link->is_open()) pump(target);
  // The rest is the poller's business. It may sleep until something comes over a connection, which
  // this need not: what is to be received may have come, and a socket stays ready without a word.
  if (polling_ && !message->complete) wake();
  return message;
}

void Engine::check(const Message& message) {
  if (broken_) broken_->raise();
  const Entry& from = entries_.at({message.peer, message.lane});
  if (from.link->ended() || (message.is_send && from.link->goodbye()))
    fail({Breakage::Kind::peer, message.peer, from.link->goodbye()->notice.text, {}});
  if (broken_) broken_->raise();
}

void Engine::wait(const Message& message, std::size_t bytes, Deadline deadline) {
  const auto ready = [&] {
    return message.complete.load(std::memory_order_acquire) ||
           (bytes < message.size && message.done.load(std::memory_order_acquire) >= bytes);
  };
  if (ready()) return;
  Lock lock(mutex_);
  SilenceWatch silence(options_.silence, Deadline::Clock::now());
  while (!ready()) {
    check(message);
    if (WaitInterrupt::is_due()) {
      lock.unlock();
      ask_interrupt();
      lock.lock();
      continue;
    }
    const Link& link = *entries_.at({message.peer, message.lane}).link;
    if (silence.is_over(Deadline::Clock::now(), link.heard_at())) {
      fail({Breakage::Kind::peer, message.peer,
            fmt::format("{} was cut off or is stopped: its connection is open, and nothing came "
                        "over it for {} ms",
                        link.peer_name(), options_.silence.count()),
            "Look at the network between the two hosts, and whether that rank is stopped (SIGSTOP, "
            "a debugger)."});
      broken_->raise();
    }
    const Deadline limit =
        WaitInterrupt::limit(Deadline::at(std::min(deadline.when(), silence.next_look())));
    if (deadline.expired()) {
      fail({Breakage::Kind::timeout, message.peer, lateness(message),
            "Look whether that rank is stopped, cut off or slower than the deadline allows."});
      broken_->raise();
    }
    if (polling_) {
      if (limit.is_never())
        changed_.wait(lock);
      else
        changed_.wait_until(lock, limit.when());
      continue;
    }
    polling_ = true;
    try {
      run_round(lock, limit);
    } catch (...) {
      polling_ = false;
      changed_.notify_all();
      throw;
    }
    polling_ = false;
    changed_.notify_all();
  }
}

void Engine::ask_interrupt() {
  try {
    WaitInterrupt::ask();
  } catch (const Interrupted&) {
    tell_interrupt();
    throw;
  }
}

// Before the transfers of this call are destroyed, which would tell the peers less.
void Engine::tell_interrupt() noexcept {
  abort({0, options_.rank, fmt::format("{} was interrupted", options_.name)});
}

void Engine::beat() noexcept {
  try {
    Lock lock(mutex_);
    if (broken_ || said_goodbye_) return;
    for (auto& [key, entry] : entries_)
      if (!entry.dial.failure) entry.link->beat();
  } catch (const std::exception& error) {
    log::debug("{} could not tell its peers that it is there: {}", options_.name, error.what());
  }
}

std::string Engine::lateness(const Message& message) const {
  const Entry& from = entries_.at({message.peer, message.lane});
  if (!from.link->is_open())
    return fmt::format("no connection with {} came about in time{}{}", from.link->peer_name(),
                       last_refusal_.empty() ? "" : "; last refused: ", last_refusal_);
  return fmt::format("{} did not {} {} of {} bytes in time", from.link->peer_name(),
                     message.is_send ? "take" : "send", message.size - message.done.load(),
                     message.size);
}

void Engine::run_round(Lock& lock, Deadline deadline) {
  const auto next_look = std::min(open_links(lock, deadline), accept_again_);
  if (broken_) return;
  bool moved = false;
  for (auto& [key, entry] : entries_) {
    moved = pump(entry) || moved;
    if (broken_) return;
  }
  // While data flows, a look now and then finds what else has come.
  if (!moved)
    poll(lock, Deadline::at(std::min(deadline.when(), next_look)).poll_timeout_ms());
  else if (++rounds_ % kRoundsBetweenPolls == 0)
    poll(lock, 0);
}

bool Engine::pump(Entry& entry) {
  if (entry.dial.failure) return false;
  try {
    const bool moved = entry.link->pump();
    const auto& goodbye = entry.link->goodbye();
    if (goodbye && goodbye->kind == Goodbye::Kind::aborted)
      fail({Breakage::Kind::peer,
            goodbye->notice.culprit,
            goodbye->notice.text,
            {},
            goodbye->notice});
    if (goodbye && goodbye->kind == Goodbye::Kind::protocol)
      fail({Breakage::Kind::protocol, entry.link->peer(), goodbye->notice.text, {}});
    return moved;
  } catch (const PeerError& error) {
    // A peer that aborted before it had taken this connection in could not say so here.
    if (entry.link->goodbye())
      fail_with(*entry.link, error);
    else
      entry.dial.failure = breakage_of(*entry.link, error);
    return true;  // open_links() asks the rendezvous
  } catch (const Error& error) {
    fail_with(*entry.link, error);
    return false;
  }
}

void Engine::poll(Lock& lock, int timeout_ms) {
  std::array<epoll_event, 64> events;
  lock.unlock();
  const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), timeout_ms);
  const int code = errno;
  lock.lock();
  if (count < 0 && code != EINTR) throw SystemError("wait for connections", code);
  resume_accepting();
  bool news = false;  // of those that are not proven
  for (int i = 0; i < count; ++i) {
    const std::uint64_t id = events[i].data.u64;
    if (id == kListenerId) {
      accept_all();
      news = true;
    } else if (id == 1) {
      std::uint64_t ignored;
      [[maybe_unused]] const auto n = ::read(wakeup_.get(), &ignored, sizeof ignored);
    } else if (const auto it = watched_.find(id); it != watched_.end()) {
      it->second->note_events(events[i].events);
      news = news || !it->second->is_open();
    }
  }
  // Many silent connections must cost the transfers nothing: they are looked through now and then.
  const TimePoint now = incoming_.empty() ? TimePoint() : Deadline::Clock::now();
  if (incoming_.empty() || (!news && now < next_sweep_)) return;
  next_sweep_ = now + kSweepPeriod;
  set_up_incoming(now);
}

void Engine::fail_with(const Link& link, const Error& error) { fail(breakage_of(link, error)); }

Breakage Engine::breakage_of(const Link& link, const Error& error) {
  const std::string& name = link.peer_name();
  Breakage breakage{Breakage::Kind::peer, link.peer(), {}, error.context().advice};
  if (link.goodbye()) {  // it had left, and then the connection closed
    breakage.text = link.goodbye()->notice.text;
  } else if (dynamic_cast<const AuthError*>(&error) != nullptr) {
    breakage.kind = Breakage::Kind::auth;
    breakage.text =
        fmt::format("{} was not let in, or did not let us in: {}", name, error.message());
  } else if (dynamic_cast<const ProtocolError*>(&error) != nullptr) {
    breakage.kind = Breakage::Kind::protocol;
    breakage.text = fmt::format("{} broke the protocol: {}", name, error.message());
  } else {
    breakage.text = fmt::format("{} died or was cut off: {}", name, error.message());
    breakage.advice = "Read that rank's log for the cause.";
  }
  return breakage;
}

void Engine::fail(Breakage breakage) {
  if (broken_) return;
  broken_ = std::move(breakage);
  // Callers may take their memory back as soon as they hear of it.
  for (auto& [key, entry] : entries_) entry.link->detach();
  if (broken_->kind == Breakage::Kind::protocol)
    say_goodbye({Goodbye::Kind::protocol, {0, broken_->culprit, broken_->text}});
  wake();
  changed_.notify_all();
}

void Engine::drop(const Message& message) noexcept {
  if (message.complete.load(std::memory_order_acquire)) return;
  {
    // What broke the messenger is told to the peers already; the remains of a call do not.
    Lock lock(mutex_);
    if (broken_) return;
  }
  abort({0, options_.rank,
         fmt::format("{} gave up a transfer with rank {}", options_.name, message.peer)});
}

void Engine::abort(const AbortNotice& notice) noexcept {
  try {
    Lock lock(mutex_);
    fail({Breakage::Kind::peer, notice.culprit, notice.text, {}, notice});
    if (said_goodbye_) return;
    say_goodbye({Goodbye::Kind::aborted, notice});
    lock.unlock();
    publish_end(notice);
  } catch (const std::exception& error) {
    log::debug("{} could not tell all peers that it aborts: {}", options_.name, error.what());
    wake();
  }
}

void Engine::close() noexcept {
  try {
    Lock lock(mutex_);
    if (broken_) {
      say_goodbye({Goodbye::Kind::aborted, {0, broken_->culprit, broken_->text}});
    } else {
      const std::string text = fmt::format("{} left the group", options_.name);
      fail({Breakage::Kind::peer, options_.rank, text, {}});
      say_goodbye({Goodbye::Kind::left, {0, options_.rank, text}});
    }
  } catch (const std::exception& error) {
    log::debug("{} could not say goodbye to all peers: {}", options_.name, error.what());
    wake();
  }
}

std::optional<AbortNotice> Engine::aborted() const {
  Lock lock(mutex_);
  return broken_ ? broken_->notice : std::nullopt;
}

void Engine::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(wakeup_.get(), &one, sizeof one);
}

}  // namespace cohort::transport::tcp
