#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "cohort/membership/protocol/coordinator.h"

namespace cohort::membership::simulator {

// An invariant does not hold. The message says which, for whom and when.
class Violation : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::uint64_t mix(std::uint64_t a, std::uint64_t b);

struct Record {
  std::int64_t stage = -1;
  std::uint64_t view = 0;
  bool operator==(const Record&) const = default;
};

// What a training must do, and what a simulated one has done; throws Violation where they differ.
//
// "No two views are active" means, at every instant at which a member commits a stage in view v:
//   - no member has committed in a view later than v;
//   - no other process may commit (Member::may_commit) in a view older than v;
//   - who commits was not evicted before, and holds a lease: one that the coordinator gave, and
//     that has not ended by the time the beat it answers was sent.
class Checks {
 public:
  Checks(const CoordinatorOptions& options, int stages, int shards);

  // What a member contributes for one shard, and what a whole stage makes of the state.
  static std::uint64_t contribution(std::uint64_t state, std::int64_t stage, int shard);
  static std::uint64_t after(std::uint64_t state, std::int64_t stage,
                             const std::vector<std::uint64_t>& contributions);
  std::uint64_t initial_state() const { return states_.front(); }

  struct Commit {
    std::string member;
    std::uint64_t view = 0;
    std::int64_t stage = 0;   // this one, counted from 0
    std::uint64_t state = 0;  // after it
    Time now{0};
    Time lease_end{0};
    std::uint64_t oldest_active_view = 0;  // in which any process may commit now
  };
  void committed(const Commit& commit);
  void installed(const View& view);
  void evicted(const std::string& member) { evicted_.insert(member); }
  void entered(const std::string& process, std::uint64_t view);
  void recorded(Record record);
  // Training is over: the ledger must name, for each stage, the last view that committed it.
  void check_ledger() const;

  // The ledger's newest record, for a new chief.
  Record last_record() const { return ledger_.empty() ? Record() : ledger_.back(); }
  bool has_record(Record record) const;
  std::uint64_t commits() const { return commits_; }
  std::uint64_t redone() const { return redone_; }

 private:
  CoordinatorOptions options_;
  std::vector<std::uint64_t> states_;       // after so many stages
  std::vector<std::uint64_t> last_commit_;  // stage: the last view that committed it; 0: none
  std::set<std::pair<std::int64_t, std::uint64_t>> all_commits_;
  std::vector<Record> ledger_;
  std::set<std::string> evicted_;
  std::map<std::string, std::uint64_t> entered_;
  View view_;
  std::uint64_t newest_commit_view_ = 0;
  std::uint64_t commits_ = 0;
  std::uint64_t redone_ = 0;
};

}  // namespace cohort::membership::simulator
