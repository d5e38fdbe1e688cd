#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/base/crypto/secret.h"
#include "cohort/base/deadline.h"
#include "cohort/cluster/address.h"

namespace cohort::cluster {

struct StoreClientOptions {
  Address address;
  std::optional<Secret> secret;
  std::string name;  // who we are, "worker/1": errors elsewhere name us by it
  // A store that is silent for this long while a call waits is warned of, also where the call itself
  // may wait on. No call ends by it: a launcher that is stopped (Ctrl-Z) must end no job. 0: never.
  std::chrono::milliseconds silence{10'000};
};

struct StoreEvent {
  enum class Kind { set, removed };
  Kind kind = Kind::set;
  std::string key;
  std::string value;  // of a set
};

struct CompareAndSetResult {
  bool swapped = false;
  std::optional<std::string> found;  // what was there instead; nothing: the key does not exist
};

struct BarrierOptions {
  std::string member;                // our name in it; the client's own when empty
  std::vector<std::string> members;  // names of all, where known: a barrier that fails names whom
                                     // it missed, and fails at once when one of them has left
};

class StoreChannel;

// The changes under a prefix, in order and without a gap: first every key that is there as a `set`,
// then whatever happens. Ends when destroyed. Thread-compatible; must not outlive its client's
// close() by more than calls that then throw.
class StoreWatch {
 public:
  StoreWatch(std::shared_ptr<StoreChannel> channel, std::uint64_t id);
  StoreWatch(StoreWatch&& other) noexcept = default;
  StoreWatch& operator=(StoreWatch&&) = delete;
  ~StoreWatch();

  // Nothing when the deadline passed. PeerError when the store went away.
  std::optional<StoreEvent> next(Deadline deadline);

 private:
  std::shared_ptr<StoreChannel> channel_;
  std::uint64_t id_;
};

// A task's connection to the rendezvous store.
//
// Threads: thread-safe; calls of several threads are in flight side by side. No thread of its own:
// a thread that waits reads for all.
// Failure: TimeoutError when the deadline passed, PeerError as soon as the store is gone (also for
// calls already waiting), InvalidInput for keys over 1 KiB, values over 16 MiB and requests that
// the store refuses. Each names store, operation and key. A lost connection stays lost.
class StoreClient {
 public:
  // Tries until the deadline: the server may start later. AuthError when the secrets differ.
  static std::unique_ptr<StoreClient> connect(const StoreClientOptions& options, Deadline deadline);
  ~StoreClient();  // close()

  // Another connection to the same store. The store takes `name` for another client, so that the
  // end of one connection is not taken for the end of the other.
  std::unique_ptr<StoreClient> connect_again(const std::string& name, Deadline deadline) const;

  void set(const std::string& key, std::string value, Deadline deadline);
  // As set(), but does not wait for the answer: calls of one thread still take effect in order. A
  // store that refuses (it is full) is not noticed; one that is gone may be noticed only later.
  void post(const std::string& key, std::string value, Deadline deadline);
  std::string get(const std::string& key, Deadline deadline);  // waits until the key exists
  std::optional<std::string> try_get(const std::string& key, Deadline deadline);
  // Sets `desired` if the value is `expected`, or, where that is nothing, if there is no such key.
  CompareAndSetResult compare_and_set(const std::string& key, std::optional<std::string> expected,
                                      std::string desired, Deadline deadline);
  bool remove(const std::string& key, Deadline deadline);  // false: there was none
  std::vector<std::pair<std::string, std::string>> list(const std::string& prefix,
                                                        Deadline deadline);

  // A counter starts at 0 and is a key whose value is its decimal text.
  std::int64_t add(const std::string& key, std::int64_t delta, Deadline deadline);
  std::int64_t wait_counter(const std::string& key, std::int64_t at_least, Deadline deadline);

  // Returns when `count` callers are in it. PeerError when one of them leaves the store meanwhile.
  void barrier(const std::string& name, std::int64_t count, Deadline deadline,
               const BarrierOptions& options = {});

  StoreWatch watch(const std::string& prefix, Deadline deadline);

  // The store sets `key` when this connection ends, however it ends, unless cancelled before. Of
  // several who ask for one key only the last counts: a task that was started again is there, even
  // where its old connection is seen to end only later.
  void set_on_disconnect(const std::string& key, std::string value, Deadline deadline);
  void cancel_on_disconnect(const std::string& key, Deadline deadline);

  const Address& address() const { return options_.address; }
  const std::string& name() const { return options_.name; }

  // Calls that wait in other threads fail with PeerError. May be called again.
  void close();

 private:
  StoreClient(StoreClientOptions options, std::shared_ptr<StoreChannel> channel);

  StoreClientOptions options_;
  std::shared_ptr<StoreChannel> channel_;
};

}  // namespace cohort::cluster
