#pragma once

#include <functional>

#include "cohort/base/deadline.h"
#include "cohort/parallel/strategies/context.h"
#include "cohort/parallel/strategies/elastic_membership.h"
#include "cohort/train/elastic/state.h"

namespace cohort::elastic {

struct RunOptions {
  // For each wait for a view's members. By default as long as the job has patience (`cohort run
  // --elastic-timeout`).
  std::chrono::milliseconds patience = std::chrono::milliseconds::max();
  // Changes of view in a row without a commit, and without anybody lost: then it is the loop that
  // fails, and its error is thrown.
  int most_fruitless = 3;
};

// Trains through changes of members: Horovod's elastic.run. Joins the others, makes the state the
// same everywhere (State::sync), and calls `train`, which goes on from wherever the state is:
//   - a worker was lost (the group throws PeerError, TimeoutError or MismatchError): the state goes
//     back to its last commit, the rest find together, reset callbacks run, sync, `train` again;
//   - a worker comes or is sent away: the same, but nothing goes back;
//   - `train` has returned: waits until it has everywhere. If somebody is lost meanwhile and not
//     all have finished, all call it again, with the state of one that has: what stands after its
//     loop may so be done twice.
// context.group(), rank() and size() are those of the current view in `train` and in the callbacks.
// Whatever holds on to a group (DistributedOptimizer, GradientSync) is made in `train`.
//
// In a job that is not elastic, or alone: sync, and `train` once; its errors pass.
//
// Failure: what `train` throws besides; membership::Dismissed when the job does not want this
// worker any more (run_main() then ends the program well); PeerError when the coordinator is gone;
// InvalidInput when the others have registered other things, or the job has trained already.
void run(Context& context, State& state, const std::function<void(State&)>& train,
         RunOptions options = {});

// The same for a seat without a Context.
void run(parallel::ElasticMembership& seat, State& state, const std::function<void(State&)>& train,
         RunOptions options = {});

}  // namespace cohort::elastic
