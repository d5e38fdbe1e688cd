#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/cluster/store/store_barriers.h"
#include "cohort/cluster/store/store_protocol.h"
#include "cohort/cluster/store/store_watches.h"

namespace cohort::cluster {

struct StoreLimits {
  std::size_t total_bytes = std::size_t{1} << 30;  // of all keys and values
  std::size_t keys = std::size_t{1} << 20;
  std::size_t waits_per_client = 4096;
  std::size_t watches_per_client = 1024;
  std::size_t wills_per_client = 64;
};

// What the store knows and whom it owes an answer; no sockets, no clock of its own.
// Confined to one thread. Answers go out through `send`, which must not call back in.
// A bad request is answered with StoreStatus::invalid; one that no client of ours can send (an id
// used twice) throws ProtocolError, and the caller drops that client.
class StoreState {
 public:
  using Clock = Deadline::Clock;
  using Send = std::function<void(StoreClientId, StoreResponse)>;

  StoreState(Send send, StoreLimits limits);

  void connected(StoreClientId client, const std::string& identity);
  // Withdraws its waits, fails the barriers it belongs to, carries out its wills.
  void disconnected(StoreClientId client);
  void handle(StoreClientId client, StoreRequest request, Clock::time_point now);

  // When the next wait times out, if any does; then call expire().
  std::optional<Clock::time_point> next_expiry() const;
  void expire(Clock::time_point now);

 private:
  using Value = std::shared_ptr<const std::string>;
  struct Client {
    std::string identity;
    std::set<std::uint64_t> waits;
    std::map<std::string, std::string> wills;
  };
  struct Wait {
    StoreOp op;
    std::string key;
    std::int64_t threshold = 0;
    std::optional<Clock::time_point> expiry;
  };

  void answer(StoreWaitId to, StoreStatus status, Value value = nullptr, std::int64_t number = 0);
  void reject(StoreWaitId to, std::string reason);
  void reject_full(StoreWaitId to);
  void begin_wait(StoreWaitId id, const StoreRequest& request, Clock::time_point now);
  void end_wait(StoreWaitId id);
  void send_barrier(StoreBarriers::Outcome outcome);
  void join_barrier(StoreWaitId id, StoreRequest& request, Clock::time_point now);
  void compare_and_set(StoreWaitId id, StoreRequest& request);
  void add(StoreWaitId id, const StoreRequest& request);
  void list(StoreWaitId id, const std::string& prefix);
  void watch(StoreWaitId id, const std::string& prefix);

  // False, and nothing changed, when the store is full.
  bool put(const std::string& key, std::string value);
  void set(StoreWaitId id, StoreRequest& request);
  bool erase(const std::string& key);
  bool is_satisfied(const Wait& wait, const std::string& value) const;

  Send send_;
  StoreLimits limits_;
  std::map<std::string, Value> data_;
  std::size_t bytes_ = 0;
  std::unordered_map<StoreClientId, Client> clients_;
  std::map<StoreWaitId, Wait> waits_;
  std::unordered_map<std::string, std::set<StoreWaitId>> waits_by_key_;
  std::set<std::pair<Clock::time_point, StoreWaitId>> expiries_;
  std::unordered_map<std::string, StoreClientId> will_owners_;  // by key
  StoreBarriers barriers_;
  StoreWatches watches_;
};

}  // namespace cohort::cluster
