#include "cohort/cluster/store/store_channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <system_error>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/process/wait_interrupt.h"

namespace cohort::cluster {
namespace {

constexpr std::size_t kReceiveSize = 64 * 1024;
constexpr std::size_t kMaxKeptEventBytes = std::size_t{64} << 20;

}  // namespace

StoreChannel::StoreChannel(UniqueFd fd, const SessionKeys& keys, std::string store)
    : fd_(std::move(fd)),
      store_(std::move(store)),
      encoder_(keys.client_to_server, kMaxStoreFrame),
      decoder_(keys.server_to_client, kMaxStoreFrame) {}

std::uint64_t StoreChannel::send(StoreRequest& request, Deadline deadline, bool is_watch) {
  std::lock_guard sending(send_mutex_);
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
    if (!wait(lock, deadline, [&] { return calls_.at(id).has_value(); }))
      throw TimeoutError(fmt::format("the store at {} did not answer in time", store_));
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
    if (!wait(lock, deadline, [&] { return calls_.at(id).has_value(); }))
      throw TimeoutError(fmt::format("the store at {} did not answer in time", store_));
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
    if (!has_reader_)
      read_and_dispatch(lock, until);
    else if (until.is_never())
      changed_.wait(lock);
    else
      changed_.wait_until(lock, until.when());
  }
  return true;
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
