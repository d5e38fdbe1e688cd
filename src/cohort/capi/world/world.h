#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/capi/requests/request_engine.h"
#include "cohort/capi/world/place.h"
#include "cohort/capi/world/stall_watch.h"
#include "cohort/capi/world/timeline.h"
#include "cohort/collective/group.h"

namespace cohort::capi {

struct WorldOptions {
  std::size_t fusion_bytes = std::size_t{64} << 20;  // 0: none; the least of all ranks' counts
  std::chrono::microseconds cycle{1000};
  StallOptions stall;
  std::string host;  // equal for the ranks of one host
};

// The ranks that work together until it is closed: a request engine for all of them (set 0) and one
// for each process set that this rank is in.
//
// Threads: thread-safe. Failure: an error of any of its groups breaks all of it: every request that
// is outstanding, and every later one, ends with that error.
class World {
 public:
  // Collective over the group.
  World(std::shared_ptr<collective::Group> group, const WorldOptions& options, Deadline deadline);
  ~World();  // closes
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return world_->rank(); }
  int size() const { return world_->size(); }
  const Place& place() const { return place_; }

  // Of the process set. Throws InvalidInput where there is no such set, or this rank is not in it.
  std::shared_ptr<RequestEngine> engine(int set) const;

  // Collective: blocks until every rank of the world has asked for the same. The number of a new set
  // is the lowest that is free.
  int add_set(std::span<const std::int32_t> ranks);
  void remove_set(int set);
  std::vector<std::int32_t> ranks_of(int set) const;  // InvalidInput: no such set

  // Of the world's group; lives as long as it likes.
  collective::Buffer allocate(std::size_t bytes) { return world_->allocate(bytes); }

  void start_timeline(const std::string& path, bool mark_cycles);
  void stop_timeline();

  void fail(const Failure& failure);
  // Requests outstanding end with COHORT_CLOSED. May be called again.
  void close();
  bool is_closed() const;

 private:
  struct Set {
    std::vector<std::int32_t> ranks;
    std::shared_ptr<RequestEngine> engine;  // nullptr: this rank is not in it
  };

  EngineOptions engine_options(std::vector<std::int32_t> ranks);
  void change_sets(const Signature& signature, Request& request);
  std::unique_ptr<collective::Group> form(const std::vector<std::int32_t>& ranks);
  void add(const Signature& signature, Request& request);
  void remove(int set);
  void run(const RequestRef& request);
  std::map<int, std::shared_ptr<RequestEngine>> engines() const;

  WorldOptions options_;
  Place place_;
  Timeline timeline_;
  mutable std::mutex mutex_;  // guards the three
  std::map<int, Set> sets_;
  bool closed_ = false;
  Failure failure_;       // the first
  std::mutex set_calls_;  // one add or remove at a time

  std::shared_ptr<RequestEngine> world_;
  std::unique_ptr<StallWatch> stall_watch_;
};

}  // namespace cohort::capi
