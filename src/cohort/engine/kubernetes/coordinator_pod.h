#pragma once

#include "cohort/base/crypto/secret.h"
#include "cohort/launch/job/job.h"

namespace cohort::engine::kubernetes {

// Pod 0 of an elastic job: hosts the rendezvous store and the membership coordinator, which the
// launcher hosts elsewhere. No process of a worker is its child, so a worker is lost when its lease
// ends. Members come as their pods do: the job may have any number from least to most.
// Returns 0 when all members have finished, 1 when the job cannot go on, 143 after TERM.
// Throws InvalidInput, SystemError.
int run_coordinator(const launch::JobOptions& options, const Secret& secret);

}  // namespace cohort::engine::kubernetes
