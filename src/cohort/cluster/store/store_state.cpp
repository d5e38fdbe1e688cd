#include "cohort/cluster/store/store_state.h"

#include <charconv>

#include "cohort/base/error.h"

namespace cohort::cluster {
namespace {

// Counters are stored as decimal text, so that get() shows them.
std::optional<std::int64_t> parse_counter(std::string_view text) {
  std::int64_t value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::shared_ptr<const std::string> share(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

}  // namespace

StoreState::StoreState(Send send, StoreLimits limits) : send_(std::move(send)), limits_(limits) {}

void StoreState::connected(StoreClientId client, const std::string& identity) {
  clients_[client].identity = identity;
  barriers_.client_connected(identity);
}

void StoreState::disconnected(StoreClientId client) {
  auto found = clients_.find(client);
  if (found == clients_.end()) return;
  Client gone = std::move(found->second);
  clients_.erase(found);
  watches_.remove_client(client);
  auto outcomes = barriers_.client_left(client, gone.identity);
  for (auto request : gone.waits) end_wait({client, request});
  for (auto& outcome : outcomes) send_barrier(std::move(outcome));
  for (auto& [key, value] : gone.wills) {
    auto owner = will_owners_.find(key);
    if (owner == will_owners_.end() || owner->second != client) continue;
    will_owners_.erase(owner);
    put(key, std::move(value));
  }
}

void StoreState::handle(StoreClientId client, StoreRequest request, Clock::time_point now) {
  StoreWaitId id{client, request.id};
  Client& asking = clients_.at(client);
  if (asking.waits.count(request.id))
    throw ProtocolError(fmt::format("request number {} is still unanswered", request.id));
  switch (request.op) {
    case StoreOp::set:
      return set(id, request);
    case StoreOp::get:
    case StoreOp::wait_counter:
      return begin_wait(id, request, now);
    case StoreOp::try_get: {
      auto found = data_.find(request.key);
      return found == data_.end() ? answer(id, StoreStatus::missing)
                                  : answer(id, StoreStatus::ok, found->second);
    }
    case StoreOp::compare_and_set:
      return compare_and_set(id, request);
    case StoreOp::add:
      return add(id, request);
    case StoreOp::barrier:
      return join_barrier(id, request, now);
    case StoreOp::remove:
      return answer(id, erase(request.key) ? StoreStatus::ok : StoreStatus::missing);
    case StoreOp::list:
      return list(id, request.key);
    case StoreOp::watch:
      return watch(id, request.key);
    case StoreOp::unwatch:
      watches_.remove({client, static_cast<std::uint64_t>(request.number)});
      return answer(id, StoreStatus::ok);
    case StoreOp::set_on_disconnect:
      if (asking.wills.size() >= limits_.wills_per_client && !asking.wills.count(request.key))
        return reject(
            id, fmt::format("more than {} keys to set on disconnect", limits_.wills_per_client));
      asking.wills[request.key] = std::move(request.value);
      will_owners_[request.key] = client;
      return answer(id, StoreStatus::ok);
    case StoreOp::cancel_on_disconnect:
      asking.wills.erase(request.key);
      if (auto owner = will_owners_.find(request.key);
          owner != will_owners_.end() && owner->second == client)
        will_owners_.erase(owner);
      return answer(id, StoreStatus::ok);
  }
}

std::optional<StoreState::Clock::time_point> StoreState::next_expiry() const {
  if (expiries_.empty()) return std::nullopt;
  return expiries_.begin()->first;
}

void StoreState::expire(Clock::time_point now) {
  while (!expiries_.empty() && expiries_.begin()->first <= now) {
    StoreWaitId id = expiries_.begin()->second;
    const Wait& wait = waits_.at(id);
    StoreResponse response{.status = StoreStatus::timed_out, .id = id.request};
    if (wait.op == StoreOp::barrier)
      for (auto& member : barriers_.withdraw(id, wait.key))
        response.entries.emplace_back(std::move(member), "");
    end_wait(id);
    send_(id.client, std::move(response));
  }
}

void StoreState::answer(StoreWaitId to, StoreStatus status, Value value, std::int64_t number) {
  send_(to.client, {.status = status,
                    .id = to.request,
                    .number = number,
                    .key = {},
                    .value = std::move(value),
                    .entries = {}});
}

void StoreState::reject(StoreWaitId to, std::string reason) {
  answer(to, StoreStatus::invalid, share(std::move(reason)));
}

void StoreState::reject_full(StoreWaitId to) {
  reject(to, fmt::format("the store is full ({} of {} bytes, {} of {} keys)", bytes_,
                         limits_.total_bytes, data_.size(), limits_.keys));
}

bool StoreState::is_satisfied(const Wait& wait, const std::string& value) const {
  if (wait.op == StoreOp::get) return true;
  auto counter = parse_counter(value);
  return counter && *counter >= wait.threshold;
}

void StoreState::begin_wait(StoreWaitId id, const StoreRequest& request, Clock::time_point now) {
  Wait wait{.op = request.op, .key = request.key, .threshold = request.number};
  if (request.op != StoreOp::barrier) {
    auto found = data_.find(request.key);
    if (found != data_.end() && is_satisfied(wait, *found->second))
      return answer(id, StoreStatus::ok, found->second);
  }
  auto& waits = clients_.at(id.client).waits;
  if (waits.size() >= limits_.waits_per_client)
    throw ProtocolError(fmt::format("more than {} calls wait at once", limits_.waits_per_client));
  if (request.timeout_ms > 0) {
    wait.expiry = now + std::chrono::milliseconds(request.timeout_ms);
    expiries_.emplace(*wait.expiry, id);
  }
  waits.insert(id.request);
  if (request.op != StoreOp::barrier) waits_by_key_[request.key].insert(id);
  waits_.emplace(id, std::move(wait));
}

void StoreState::end_wait(StoreWaitId id) {
  auto found = waits_.find(id);
  if (found == waits_.end()) return;
  if (found->second.expiry) expiries_.erase({*found->second.expiry, id});
  if (auto by_key = waits_by_key_.find(found->second.key); by_key != waits_by_key_.end()) {
    by_key->second.erase(id);
    if (by_key->second.empty()) waits_by_key_.erase(by_key);
  }
  if (auto client = clients_.find(id.client); client != clients_.end())
    client->second.waits.erase(id.request);
  waits_.erase(found);
}

void StoreState::join_barrier(StoreWaitId id, StoreRequest& request, Clock::time_point now) {
  StoreBarriers::Outcome outcome;
  begin_wait(id, request, now);
  try {
    outcome = barriers_.arrive(id, {.name = request.key,
                                    .member = std::move(request.value),
                                    .count = request.number,
                                    .members = std::move(request.members)});
  } catch (const InvalidInput& error) {
    end_wait(id);
    return reject(id, error.what());
  }
  send_barrier(std::move(outcome));
}

void StoreState::send_barrier(StoreBarriers::Outcome outcome) {
  bool met = outcome.failure.empty();
  Value text = met ? nullptr : share(std::move(outcome.failure));
  for (StoreWaitId id : outcome.released) {
    end_wait(id);
    answer(id, met ? StoreStatus::ok : StoreStatus::lost, text);
  }
}

bool StoreState::put(const std::string& key, std::string value) {
  auto found = data_.find(key);
  std::size_t before = found == data_.end() ? 0 : key.size() + found->second->size();
  std::size_t after = key.size() + value.size();
  if (bytes_ - before + after > limits_.total_bytes) return false;
  if (found == data_.end() && data_.size() >= limits_.keys) return false;
  bytes_ = bytes_ - before + after;
  Value shared = share(std::move(value));
  data_[key] = shared;

  if (auto waiting = waits_by_key_.find(key); waiting != waits_by_key_.end()) {
    std::vector<StoreWaitId> satisfied;
    for (StoreWaitId id : waiting->second)
      if (is_satisfied(waits_.at(id), *shared)) satisfied.push_back(id);
    for (StoreWaitId id : satisfied) {
      end_wait(id);
      answer(id, StoreStatus::ok, shared);
    }
  }
  for (StoreWaitId id : watches_.watching(key))
    send_(id.client,
          {.status = StoreStatus::event_set, .id = id.request, .key = key, .value = shared});
  return true;
}

bool StoreState::erase(const std::string& key) {
  auto found = data_.find(key);
  if (found == data_.end()) return false;
  bytes_ -= key.size() + found->second->size();
  data_.erase(found);
  for (StoreWaitId id : watches_.watching(key))
    send_(id.client, {.status = StoreStatus::event_removed, .id = id.request, .key = key});
  return true;
}

void StoreState::set(StoreWaitId id, StoreRequest& request) {
  if (put(request.key, std::move(request.value))) return answer(id, StoreStatus::ok);
  reject_full(id);
}

void StoreState::compare_and_set(StoreWaitId id, StoreRequest& request) {
  auto found = data_.find(request.key);
  bool matches = found == data_.end() ? !request.expected.has_value()
                                      : request.expected && *request.expected == *found->second;
  if (matches) return set(id, request);
  bool exists = found != data_.end();
  answer(id, StoreStatus::mismatch, exists ? found->second : nullptr, exists ? 1 : 0);
}

void StoreState::add(StoreWaitId id, const StoreRequest& request) {
  std::int64_t sum = 0;
  if (auto found = data_.find(request.key); found != data_.end()) {
    auto value = parse_counter(*found->second);
    if (!value)
      return reject(id, fmt::format("the value of '{}' is not a whole number", request.key));
    sum = *value;
  }
  if (__builtin_add_overflow(sum, request.number, &sum))
    return reject(id, fmt::format("counter '{}' would leave 64 bits", request.key));
  if (!put(request.key, std::to_string(sum))) return reject_full(id);
  answer(id, StoreStatus::ok, nullptr, sum);
}

void StoreState::list(StoreWaitId id, const std::string& prefix) {
  StoreResponse response{.status = StoreStatus::ok, .id = id.request};
  std::size_t size = 0;
  for (auto entry = data_.lower_bound(prefix);
       entry != data_.end() && entry->first.starts_with(prefix); ++entry) {
    size += entry->first.size() + entry->second->size() + 16;
    if (size > kMaxStoreValue)
      return reject(id, fmt::format("the entries under '{}' take more than {} bytes", prefix,
                                    kMaxStoreValue));
    response.entries.emplace_back(entry->first, *entry->second);
  }
  send_(id.client, std::move(response));
}

void StoreState::watch(StoreWaitId id, const std::string& prefix) {
  if (watches_.count(id.client) >= limits_.watches_per_client)
    return reject(id, fmt::format("more than {} watches", limits_.watches_per_client));
  watches_.add(id, prefix);
  answer(id, StoreStatus::ok);
  for (auto entry = data_.lower_bound(prefix);
       entry != data_.end() && entry->first.starts_with(prefix); ++entry)
    send_(id.client, {.status = StoreStatus::event_set,
                      .id = id.request,
                      .key = entry->first,
                      .value = entry->second});
}

}  // namespace cohort::cluster
