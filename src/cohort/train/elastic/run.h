#pragma once

#include <functional>

#include "cohort/membership/group/elastic_membership.h"
#include "cohort/parallel/strategies/context.h"
#include "cohort/train/elastic/state.h"
#include "cohort/train/elastic/view_driver.h"

namespace cohort::elastic {

// `patience` for each wait for a view's members; after more than `most_fruitless` failures in a row
// of the same members without a commit an Error that quotes the last.
using RunOptions = DriverOptions;

// Trains through changes of members: Horovod's elastic.run. Joins the others, makes the state the
// same everywhere (State::sync), and calls `train`, which goes on from wherever the state is:
//   - a worker was lost (what is_peer_loss() holds for was thrown): the state goes back to its last
//     commit, the rest form a new view, reset callbacks run, sync, `train` again;
//   - a worker comes or is sent away: the same, but nothing goes back;
//   - `train` has returned: waits until it has everywhere. If a worker is lost meanwhile and not
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

// The same for a membership without a Context.
void run(membership::ElasticMembership& membership, State& state,
         const std::function<void(State&)>& train, RunOptions options = {});

}  // namespace cohort::elastic
