#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/jobspec/resolved_job.h"
#include "cohort/service/queue/queue_types.h"

// Which job starts when, with how many instances, on which nodes and GPUs. No clock, no thread, no
// file: the caller tells what happens and when, and carries out what is decided. The same calls
// give the same decisions.
//
// Words. A job is a gang of equal instances: `least` of them or more start at once, or none. One
// with least < most is elastic. The line: all waiting jobs, in the order in which they are served:
//   1. higher priority first, always (a low priority waits as long as higher ones keep coming);
//   2. within a priority, job by job, the user whose standing (fair_shares.h), with what stands in
//      line before counted as if it was held, is lowest;
//   3. of one user, and at equal standing, the job that came first.
// A job that the nodes could not hold if they were empty does not stand in line; it keeps waiting
// for other nodes, and reason() says so.
//
// Starts. The first in line starts as soon as `least` instances fit. An elastic job gets as many as
// fit, up to its most, while no other job waits; else its least.
//
// Back-fill. When the first in line does not fit, others behind it may start if that cannot delay
// it. Its time T is the earliest at which it will fit, when each running job ends after its max_run
// and elastic jobs have given back what is above their least. Jobs without max_run count as
// endless, so that T may be unknown. A job behind may start
//   - where T is known: if it ends by T (its max_run from now on), anywhere; otherwise only beside
//     the places that are set aside for the first in line at T;
//   - where T is unknown: only with what the first in line does not need at all. On no node does it
//     take of cores, memory or GPUs unless as much stays free there of each as all instances of the
//     first in line would need that could ever be on that node. Whatever ends next, and in
//     whatever order, the first in line then starts when it would have started anyway.
// Jobs that end before their max_run can make the first in line start before T; the promise is T.
// At most kBackfillDepth jobs behind the first are looked at.
//
// Elastic jobs. When no job waits, those that run grow into what is free: the one with the smallest
// part of its range first, up to its most. When the first in line would fit with what elastic jobs
// hold above their least, they are asked for it, no more than it takes, of the lowest priority
// first; none ever goes below its least. What is asked back counts as held until returned().
//
// Confined to one thread. Failure: a broken invariant (COHORT_CHECK) only.
namespace cohort::service {

struct QueueState;

class Queue {
 public:
  static constexpr int kBackfillDepth = 128;
  static constexpr QueueTime kHalfLife = QueueTime{24} * 3600 * 1000;

  explicit Queue(const std::vector<jobspec::Size>& nodes, QueueTime half_life = kHalfLife);
  ~Queue();

  void add(const QueueJob& job, QueueTime now);  // it waits; an id that is not in here
  // One that was started earlier, and holds this since `started`, also where the nodes became too
  // small for it: nothing starts there then.
  void add_running(const QueueJob& job, const std::vector<Placed>& placement, QueueTime started,
                   QueueTime now);
  // What a user held before this object was made.
  void remember(std::string_view user, const jobspec::Size& instance, int instances, QueueTime from,
                QueueTime to, QueueTime now);
  bool contains(std::string_view id) const;
  // It ended, or waits no longer. Unknown ids are ignored.
  void remove(std::string_view id, QueueTime now);
  // An elastic job that runs: its range from now on, within which decide() gives and takes.
  void set_most(std::string_view id, int most);
  // An elastic job really holds as few instances as the last scale said.
  void returned(std::string_view id, QueueTime now);

  // What to do now. Starts and growth are held from here on. Cheap when nothing has changed.
  Decision decide(QueueTime now);

  // Why the first jobs of the line wait, and those that no node could ever hold: by id. "waits for
  // 4 cores: 2 are free, 'train-a' holds 6", "third in line". For all others it is kFarReason.
  std::map<std::string, std::string> reasons(QueueTime now) const;
  static constexpr int kCounted = 10;  // places in line that are told
  static constexpr std::string_view kFarReason = "more than ten jobs are before it";

  // The first of the line, at most `count`.
  std::vector<std::string> line(int count, QueueTime now) const;
  jobspec::Size free() const;

 private:
  std::unique_ptr<QueueState> state_;
};

}  // namespace cohort::service
