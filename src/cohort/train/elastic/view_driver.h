#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/membership/group/elastic_membership.h"

namespace cohort::elastic {

// What a worker of an elastic job does in each view. Trainer::fit() has one (loop/elastic_fit.h),
// elastic::run() has one (run.cpp). All members make the same calls.
//
// Called by ViewDriver on the worker's thread: begin_view and train for each view; roll_back where
// one of them broke off because a peer was lost; end_view before the view's group goes. An error of
// begin_view or train for which is_peer_loss() holds means that the view is over; any other passes.
class ViewBody {
 public:
  virtual ~ViewBody() = default;

  // How much of the training this worker has committed; membership::kNoState: nothing.
  virtual std::int64_t commits() const = 0;
  // The view's group is there: the state becomes that of the member with the most commits, at once
  // or while train() goes on.
  virtual void begin_view() = 0;
  // Goes on from the last commit. True: training is over here. False, or MembersChange: a planned
  // change is due, and everything is committed.
  virtual bool train() = 0;
  // Back to the last commit.
  virtual void roll_back() = 0;
  // Gives up whatever holds on to the view's group. `why`: what broke; empty: a planned change.
  virtual void end_view(const std::string& why) = 0;
};

// The one limit for all elastic trainings: so many changes of view in a row without a commit and
// without a change of members, then the error is the program's, not a peer's. Too low a limit ends a
// job that a slow machine would have got through; too high a one only delays an error that is sure.
inline constexpr int kMostFruitlessChanges = 9;

struct DriverOptions {
  // For each wait for a view's members. By default as long as the job has patience (`cohort run
  // --elastic-timeout`).
  std::chrono::milliseconds patience = std::chrono::milliseconds::max();
  int most_fruitless = kMostFruitlessChanges;
};

// Runs a body in view after view until training is over on all members.
// Threads: confined to the worker's thread. Ownership: `membership` must outlive it.
class ViewDriver {
 public:
  // `membership`: enter() has returned.
  ViewDriver(membership::ElasticMembership& membership, DriverOptions options);

  // Failure: the body's errors that are no peer's loss; an Error that names the last one when
  // changing members has not helped so often that it will not; what
  // ElasticMembership::change throws (membership::Dismissed, PeerError when the coordinator is
  // gone, TimeoutError after `patience`).
  void run(ViewBody& body);

  // options.patience from now on.
  Deadline deadline() const;

 private:
  bool train_in_view(ViewBody& body, std::string& broke);
  void expect_progress(std::int64_t commits, const std::string& broke);

  membership::ElasticMembership& membership_;
  DriverOptions options_;
  // Of the last failure.
  std::set<std::string> failing_members_;
  std::int64_t failing_commits_ = membership::kNoState;
  int fruitless_ = 0;  // failures in a row like it
};

}  // namespace cohort::elastic
