#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cohort/membership/protocol/leases.h"
#include "cohort/membership/protocol/message.h"
#include "cohort/membership/protocol/view.h"

namespace cohort::membership {

// What is known of a process that has said that it is ready, for people.
struct MemberStatus {
  MemberInfo info;
  std::int64_t stage = kNoState;
  std::int64_t step = 0;
  double rate = 0;
  Time last_heard{0};
  bool is_member = false;  // of the current view; else it waits
};

// The same, for the coordinator.
struct MemberEntry {
  MemberStatus status;
  std::string id;
  std::uint64_t arrival = 0;
  Leases::Handle lease;
  enum class Doubt { none, disconnected, overdue } doubt = Doubt::none;  // gets no more leases
  std::string doubted;                                                   // why
  std::uint32_t rank = 0;                                                // of a member, in the view
  bool finished = false;
  // Of the change under way:
  bool asked = false;
  bool reported = false;
  Time asked_at{0};
  std::int64_t stage = kNoState;
  std::uint64_t base = 0;
};

// Which processes a coordinator knows: those that are there, with their leases and what they agreed
// on, and those that are gone. Knows nothing of views; members and those that wait for a view are
// alike to it, but that the latter are listed.
//
// Confined to one thread. Ownership: entries live until remove().
class MemberTable {
 public:
  explicit MemberTable(Time lease) : lease_(lease) {}

  // --- processes that are there ---
  std::size_t size() const { return entries_.size(); }
  MemberEntry* find(const std::string& id) const;
  std::vector<MemberEntry*> runs_of(const std::string& task) const;  // of its process
  // With a lease; it waits.
  void add(Time now, const MemberInfo& info);
  const std::map<std::uint64_t, MemberEntry*>& waiting() const { return waiting_; }  // by arrival
  void end_wait(MemberEntry& entry) { waiting_.erase(entry.arrival); }
  // Nothing where `agreement` is that of the processes that are there, or of the first; else theirs.
  std::optional<std::string> disagreement(const std::string& agreement);

  // --- leases ---
  void renew(MemberEntry& entry, Time now);
  // Those whose lease has certainly ended: not before mail that may lie unread was read.
  std::vector<MemberEntry*> expired(Time now);
  std::optional<Time> next_expiry() const;

  // --- processes that are gone ---
  struct Gone {
    MessageKind how;  // what an answer to them says
    std::string why;
  };
  void remove(MemberEntry& entry, Gone gone);
  void refuse(const std::string& id, Gone gone) { gone_[id] = std::move(gone); }
  const Gone* find_gone(const std::string& id) const;
  void mark_dead(const std::string& task, int incarnation);  // and the incarnations before it
  bool is_dead(const MemberInfo& info) const;

 private:
  Time lease_;
  std::unordered_map<std::string, std::unique_ptr<MemberEntry>> entries_;
  std::map<std::uint64_t, MemberEntry*> waiting_;
  std::multimap<std::string, MemberEntry*> by_task_;
  std::unordered_map<std::string, Gone> gone_;
  std::unordered_map<std::string, int> dead_;  // task: its incarnations up to this one are dead
  std::optional<std::string> agreement_;
  std::uint64_t arrivals_ = 0;
  Leases leases_;
  // Leases that had ended when it was noticed are taken for lost at `end`: until then mail is read.
  struct Grace {
    Time noticed{0};
    Time end{0};
  };
  std::optional<Grace> grace_;
};

}  // namespace cohort::membership
