#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/membership/protocol/change_reasons.h"
#include "cohort/membership/protocol/leases.h"
#include "cohort/membership/protocol/member_table.h"
#include "cohort/membership/protocol/message.h"
#include "cohort/membership/protocol/view.h"

namespace cohort::membership {

struct CoordinatorOptions {
  int least = 1;    // fewer members do not train: the job waits for more
  int most = 1;     // more are not taken
  int initial = 1;  // the first view waits for so many, as long as start_patience
  Time lease = std::chrono::seconds(2);
  Time start_patience = std::chrono::seconds(30);
  // For the report of a member that beats, from the first one of another member: a stage takes as
  // long as it takes, but all are in the same.
  Time report_patience = std::chrono::minutes(5);
  // With fewer than `least`; then the job has failed.
  Time member_patience = std::chrono::minutes(10);
};

// Something that happened, for people and for the launcher, which starts processes.
struct MembershipEvent {
  enum class Kind {
    proposed,   // `view` has the number that is tried
    installed,  // `view` is decided; text: its reason
    resumed,    // it trains; `duration` is how long no member did; `redone`: a step was done again
    evicted,    // `member` (text: why) is no member any more; its process may still be there
    dismissed,  // `member` was told to go
    refused,    // `member` cannot take part (text: why)
    waiting,    // there are fewer than `least` members
    over,       // all members have finished
    failed      // the job cannot go on; text: why
  };
  Kind kind = Kind::installed;
  Time at{0};
  std::string member;
  std::string text;
  View view;
  std::int64_t step = 0;
  Time duration{0};
  bool redone = false;
};

// Decides who trains together: views, leases, evictions. No sockets, no threads, no clock: messages
// and deaths go in, messages and events come out. The same object runs in `cohort run` and in the
// simulator.
//
// A change of view:
//   1. propose(n) to the members and to those who wait. Unplanned (a member was lost, or reported
//      that collectives broke): members drop what they are doing. Planned (newcomers, a resize):
//      members end a stage that all of them end, and then come to rest.
//   2. Each reports the stage that it has committed, and promises to commit nothing more in an
//      older view.
//   3. When all that still live have reported, and `least` are there: install(view n). Members form
//      a group; who is behind copies from who is not; training goes on.
//   A member that is lost on the way makes number n + 1 out of it, and so on. A number is never used
//   twice.
//
// Leases: each beat is answered by a lease. A member commits only while its lease holds; the
// coordinator takes a member for lost only when the last lease that it gave has certainly ended (a
// lease counts from when the beat was sent, so it ends earlier at the member than here). So no two
// views ever commit side by side, whatever the network does.
//
// Confined to one thread. Failure: a message that makes no sense is counted and left alone.
class Coordinator {
 public:
  explicit Coordinator(CoordinatorOptions options);

  void handle(Time now, const Message& message);
  // The process of this member (an id) is known to be dead.
  void lost(Time now, const std::string& id, const std::string& why);
  // The same for a process, under whatever ids it was known.
  void lost(Time now, const std::string& task, int incarnation, const std::string& why);
  // The connection of this member (an id) has ended, but its process may be alive: the others come
  // to rest at once, and go on without it when it is known to be dead or its lease has ended,
  // whichever comes first. A beat takes the suspicion back.
  void suspect(Time now, const std::string& id, const std::string& why);
  // From now on so many members at most; least <= members <= most, else InvalidInput. The last
  // ranks go first.
  void resize(Time now, int members, const std::string& why);
  // Something may be due: call at next_tick(), or at any time.
  void tick(Time now);
  std::optional<Time> next_tick() const;

  struct Outgoing {
    std::string member;
    Message message;
  };
  std::vector<Outgoing> take_messages();
  std::vector<MembershipEvent> take_events();

  // For status.
  enum class Phase { gathering, changing, training, over, failed };
  Phase phase() const;
  const View& view() const;                   // the last that was installed
  std::vector<MemberStatus> members() const;  // of the view, then those that wait
  int target() const;                         // members wanted
  std::uint64_t ignored() const;              // messages that made no sense

 private:
  struct Change {
    std::uint64_t number = 0;
    bool planned = false;
    std::size_t missing = 0;               // reports
    std::vector<MemberEntry*> candidates;  // newcomers who were asked
    std::uint64_t considered = 0;          // waiting ones up to this arrival were
    std::optional<Time> reports_since;     // of members
    bool overdue = false;                  // report_patience has passed
  };
  enum class Redo { none, planned, unplanned };

  // coordinator.cpp: who is there, and what they say.
  void begin(Time now);
  void admit(Time now, const Message& message);
  bool replace_older_run(Time now, const MemberInfo& newcomer);
  void on_beat(Time now, MemberEntry& entry, const Message& message);
  void on_report(Time now, MemberEntry& entry, const Message& message);
  void on_broken(Time now, MemberEntry& entry, const Message& message);
  void on_resumed(Time now, MemberEntry& entry, const Message& message);
  void answer_unknown(const Message& message);
  void evict_expired(Time now);
  void lose_patience(Time now);
  void doubt(Time now, MemberEntry& entry, MemberEntry::Doubt doubt, const std::string& why);
  void evict(Time now, MemberEntry& entry, const std::string& why);
  void remove(Time now, MemberEntry& entry, const std::string& why);
  void forget(MemberEntry& entry, MemberTable::Gone gone);
  void send(const std::string& member, Message message);
  void tell(Time now, MembershipEvent event);

  // coordinator_changes.cpp: what follows from it.
  void settle(Time now);
  bool settle_once(Time now);
  bool is_time_to_start(Time now);
  void propose(Time now, bool planned);
  void ask(Time now, MemberEntry& entry);
  void take_candidates(Time now);
  bool try_install(Time now);
  void install(Time now);
  void send_install(const MemberEntry& entry, bool whole);
  void finish(Time now);
  void run_short(Time now);

  CoordinatorOptions options_;
  int target_;
  std::optional<Time> started_;
  bool over_ = false;
  bool failed_ = false;

  MemberTable table_;
  std::vector<MemberEntry*> members_;  // of view_, who still live, by rank

  View view_;
  std::shared_ptr<const ViewChange> whole_view_;   // view_, for who knows nothing
  std::shared_ptr<const ViewChange> view_change_;  // view_, for who has the one before
  std::uint64_t number_ = 0;                       // newest ever proposed
  std::optional<Change> change_;
  Redo redo_ = Redo::none;  // a member was lost since the last proposal
  ChangeReasons reasons_;
  bool resumed_ = false;
  std::size_t finished_ = 0;  // members
  int breaks_ = 0;            // successive views that broke although no member was lost
  std::optional<Time> break_due_;
  std::optional<Time> short_since_;  // fewer than `least`

  std::uint64_t ignored_ = 0;
  std::vector<Outgoing> outbox_;
  std::vector<MembershipEvent> events_;
};

}  // namespace cohort::membership
