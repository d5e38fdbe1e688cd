#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cohort/service/queue/fair_shares.h"
#include "cohort/service/queue/queue_types.h"

namespace cohort::service {

// One job of the queue, as queue.cpp, backfill.cpp and queue_reasons.cpp see it.
struct QueueEntry {
  QueueJob job;
  Amount size{};         // of one instance
  double share = 0;      // of one instance
  int limit = 1;         // instances that it may have now: its most, unless a person wants fewer
  bool in_line = false;  // else it runs, or no node could ever hold it
  QueueTime started = 0;
  std::vector<Placed> placement;  // what it holds
  int asked = 0;                  // instances that it is to hold: fewer while some are asked back

  int held() const { return static_cast<int>(placement.size()); }
  bool elastic() const { return job.scales && job.least < job.most; }
};

// All that the queue knows, and the moves that keep it consistent.
struct QueueState {
  using Line = std::map<std::string, QueueEntry*>;  // of one user, by id

  QueueState(const std::vector<jobspec::Size>& nodes, QueueTime half_life)
      : pool(nodes), shares(half_life) {}

  NodePool pool;
  FairShares shares;
  std::map<std::string, std::unique_ptr<QueueEntry>, std::less<>> entries;
  std::map<int, std::map<std::string, Line>, std::greater<>> waiting;  // by priority and user
  int in_line = 0;
  std::map<std::pair<QueueTime, std::string>, QueueEntry*> ends;  // by latest end; not the endless
  std::map<std::string, QueueEntry*> running;
  std::map<std::string, QueueEntry*> elastic;     // those of `running`
  std::map<std::string, QueueEntry*> impossible;  // those that the nodes could never hold

  // Calls `visit` with each job of the line, in its order, until it returns false. `visit` may
  // start jobs, but must leave `waiting` as it is.
  void walk(QueueTime now, const std::function<bool(QueueEntry&)>& visit) const;

  void leave_line(QueueEntry& entry);
  void start(QueueEntry& entry, std::vector<Placed> placement, QueueTime started, QueueTime now);
  void hold(QueueEntry& entry, std::vector<Placed> placement, QueueTime now);
  void give_back_last(QueueEntry& entry, int keep, QueueTime now);  // all but the first `keep`
  void ask(QueueEntry& entry, int keep, Decision& decision);        // to give the others back
  // Elastic jobs in the order in which they give back.
  std::vector<QueueEntry*> givers() const;
};

}  // namespace cohort::service
