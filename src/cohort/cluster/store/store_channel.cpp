#include "cohort/cluster/store/store_channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/process/wait_interrupt.h"

namespace cohort::cluster {
namespace {

constexpr std::size_t kReceiveSize = 64 * 1024;
constexpr std::size_t kMaxKeptEventBytes = std::size_t{64} << 20;

// A key that no task sets: asking for it is answered at once.
constexpr const char* kPingKey = "cohort/ping";

std::int64_t whole_seconds(Deadline::Clock::duration time) {
  return std::chrono::round<std::chrono::seconds>(time).count();
}

}  // namespace

StoreChannel::StoreChannel(UniqueFd fd, const SessionKeys& keys, std::string store,
                           std::chrono::milliseconds silence)
    : fd_(std::move(fd)),
      store_(std::move(store)),
      encoder_(keys.client_to_server, kMaxStoreFrame),
      decoder_(keys.server_to_client, kMaxStoreFrame),
      silence_limit_(silence),
      silence_(silence, Deadline::Clock::now()),
      heard_at_(Deadline::Clock::now()) {}

std::uint64_t StoreChannel::send(StoreRequest& request, Deadline deadline, bool is_watch) {
  std::lock_guard sending(send_mutex_);
  return send_locked(request, deadline, is_watch);
}

std::uint64_t StoreChannel::send_locked(StoreRequest& request, Deadline deadline, bool is_watch) {
  {
    std::lock_guard lock(mutex_);
    if (lost_) throw_lost();
    request.id = next_id_++;
    calls_.emplace(request.id, std::nullopt);
    if (is_watch) watches_.try_emplace(request.id);
  }
  std::string wire;
  encoder_.encode(encode(request), wire);
  try {
    send_all(fd_.get(), wire, deadline, fmt::format("the store at {}", store_));
  } catch (const Error& error) {
    // Part of a frame may be on the wire: nothing can follow it.
    std::lock_guard lock(mutex_);
    lose(error.message());
    calls_.erase(request.id);
    watches_.erase(request.id);
    throw;
  }
  return request.id;
}

StoreResponse StoreChannel::call(StoreRequest request, Deadline deadline) {
  std::uint64_t id = send(request, deadline, false);
  Lock lock(mutex_);
  try {
    if (!wait(lock, deadline, [&] { return calls_.at(id).has_value(); })) throw no_answer();
  } catch (...) {
    if (!lock) lock.lock();
    calls_.erase(id);
    throw;
  }
  return std::move(*calls_.extract(id).mapped());
}

void StoreChannel::post(StoreRequest request, Deadline deadline) {
  std::uint64_t id = send(request, deadline, false);
  std::lock_guard lock(mutex_);
  calls_.erase(id);
}

std::uint64_t StoreChannel::open_watch(StoreRequest request, Deadline deadline) {
  std::uint64_t id = send(request, deadline, true);
  Lock lock(mutex_);
  StoreResponse response;
  try {
    if (!wait(lock, deadline, [&] { return calls_.at(id).has_value(); })) throw no_answer();
    response = std::move(*calls_.extract(id).mapped());
    if (response.status != StoreStatus::ok) throw InvalidInput(*response.value);
  } catch (...) {
    if (!lock) lock.lock();
    calls_.erase(id);
    watches_.erase(id);
    throw;
  }
  return id;
}

std::optional<StoreResponse> StoreChannel::next_event(std::uint64_t watch, Deadline deadline) {
  Lock lock(mutex_);
  Watch& state = watches_.at(watch);
  if (!wait(lock, deadline, [&] { return !state.events.empty() || state.overflowed; }))
    return std::nullopt;
  if (state.events.empty())
    throw Error(
        fmt::format("more than {} bytes of events were not fetched in time", kMaxKeptEventBytes),
        {.advice = "Call next() more often, or watch a narrower prefix."});
  StoreResponse event = std::move(state.events.front());
  state.events.pop_front();
  state.bytes -= event.approximate_size();
  return event;
}

void StoreChannel::close_watch(std::uint64_t watch) noexcept {
  {
    std::lock_guard lock(mutex_);
    watches_.erase(watch);
    if (lost_) return;
  }
  try {
    post({.op = StoreOp::unwatch, .number = static_cast<std::int64_t>(watch)},
         Deadline::after(std::chrono::seconds(1)));
  } catch (const std::exception&) {
    // The connection is lost then, and with it the watch.
  }
}

void StoreChannel::close() {
  std::lock_guard lock(mutex_);
  lose("this task closed the connection");
}

template <typename Done>
bool StoreChannel::wait(Lock& lock, Deadline deadline, Done done) {
  while (!done()) {
    if (lost_) throw_lost();
    if (deadline.expired()) return false;
    if (WaitInterrupt::is_due()) {
      lock.unlock();
      WaitInterrupt::ask();
      lock.lock();
      continue;
    }
    const Deadline until = WaitInterrupt::limit(deadline);
    if (!has_reader_ && look_for_silence(lock)) continue;
    if (!has_reader_)
      read_and_dispatch(lock, Deadline::at(std::min(until.when(), silence_.next_look())));
    else if (until.is_never())
      changed_.wait(lock);
    else
      changed_.wait_until(lock, until.when());
  }
  return true;
}

bool StoreChannel::look_for_silence(Lock& lock) {
  const bool is_over = silence_.is_over(Deadline::Clock::now(), heard_at_);
  const auto lasted = silence_.lasted(heard_at_);
  const bool tell = is_over && !told_silent_;
  const bool ask = silence_limit_.count() > 0 && !pinged_ && lasted >= silence_limit_ / 2;
  if (!tell && !ask) return false;
  told_silent_ |= tell;
  pinged_ |= ask;
  lock.unlock();
  if (ask) ping();
  if (tell)
    log::warning(
        "the store at {} has been silent for {:.1f} s: its process is stopped, or the network "
        "swallows what is sent; waiting on",
        store_, std::chrono::duration<double>(lasted).count());
  lock.lock();
  return true;
}

// Never waits: where the socket takes nothing, or another thread sends, bytes are on their way that
// the store would answer, too.
void StoreChannel::ping() noexcept {
  try {
    std::unique_lock sending(send_mutex_, std::try_to_lock);
    if (!sending || !wait_ready(fd_.get(), POLLOUT, Deadline::after({}))) return;
    StoreRequest request{.op = StoreOp::try_get, .key = kPingKey};
    const std::uint64_t id =
        send_locked(request, Deadline::after(std::chrono::seconds(1)), /*is_watch=*/false);
    std::lock_guard lock(mutex_);
    calls_.erase(id);
  } catch (const std::exception&) {
    // The connection is lost then: the calls that wait are told so.
  }
}

void StoreChannel::heard() {
  if (std::exchange(told_silent_, false))
    log::write_without_waiting(log::Level::info,
                               fmt::format("the store at {} answers again after {} s", store_,
                                           whole_seconds(silence_.lasted(heard_at_))));
  pinged_ = false;
  heard_at_ = Deadline::Clock::now();
}

TimeoutError StoreChannel::no_answer() const {
  return TimeoutError(fmt::format("the store at {} did not answer in time{}", store_,
                                  told_silent_
                                      ? ": nothing came from it; its process is stopped, or the "
                                        "network swallows what is sent"
                                      : ""));
}

void StoreChannel::read_and_dispatch(Lock& lock, Deadline deadline) {
  has_reader_ = true;
  lock.unlock();
  char buffer[kReceiveSize];
  IoResult result{IoResult::Status::would_block};
  try {
    result = read_some(fd_.get(), buffer, sizeof buffer);
    if (result.status == IoResult::Status::would_block && wait_ready(fd_.get(), POLLIN, deadline))
      result = read_some(fd_.get(), buffer, sizeof buffer);
  } catch (const SystemError& error) {
    result = {IoResult::Status::failed, 0, error.code()};
  }
  lock.lock();
  has_reader_ = false;
  try {
    if (result.status == IoResult::Status::closed) {
      lose("it closed the connection");
    } else if (result.status == IoResult::Status::failed) {
      lose(std::generic_category().message(result.code));
    } else if (result.status == IoResult::Status::progress) {
      heard();
      decoder_.feed({buffer, result.count});
      while (auto payload = decoder_.next()) dispatch(decode_store_response(*payload));
    }
  } catch (const ProtocolError& error) {
    lose(error.message());
  }
  changed_.notify_all();
}

void StoreChannel::dispatch(StoreResponse response) {
  if (response.status == StoreStatus::goodbye)
    return lose(fmt::format("it dropped this client: {}", *response.value));
  bool is_event =
      response.status == StoreStatus::event_set || response.status == StoreStatus::event_removed;
  if (!is_event) {
    auto found = calls_.find(response.id);
    if (found != calls_.end()) found->second = std::move(response);
    return;
  }
  auto found = watches_.find(response.id);
  if (found == watches_.end() || found->second.overflowed) return;
  Watch& watch = found->second;
  watch.bytes += response.approximate_size();
  watch.events.push_back(std::move(response));
  if (watch.bytes > kMaxKeptEventBytes) {
    watch.overflowed = true;
    watch.events.clear();
  }
}

void StoreChannel::lose(const std::string& reason) {
  if (lost_) return;
  lost_ = reason;
  ::shutdown(fd_.get(), SHUT_RDWR);  // wakes the reader, and lets the server know at once
  changed_.notify_all();
}

void StoreChannel::throw_lost() const {
  throw PeerError(fmt::format("lost the store at {}: {}", store_, *lost_));
}

}  // namespace cohort::cluster
