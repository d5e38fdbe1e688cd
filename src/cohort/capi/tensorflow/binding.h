#pragma once

#include <atomic>

#include "cohort/capi/cohort_c.h"

// Which libcohort.so and which world the operations use. Python gives both: the library that it has loaded
// itself, so that the process has one, and the world at every init and shutdown.
namespace cohort::tensorflow {

struct CohortC {
  decltype(&cohort_submit) submit;
  decltype(&cohort_run) run;
  decltype(&cohort_call_wait) call_wait;
  decltype(&cohort_call_free) call_free;
  decltype(&cohort_call_received_splits) call_received_splits;
  decltype(&cohort_call_value) call_value;
  decltype(&cohort_error_message) error_message;
  decltype(&cohort_error_free) error_free;
  decltype(&cohort_world_describe) world_describe;
  decltype(&cohort_set_ranks) set_ranks;
};

// Valid after cohort_tensorflow_bind; calls are made with a world, which comes later than that.
const CohortC& cohort_c();

// Null before init and after shutdown. The caller of shutdown sees to it that no operation begins while the
// world is being closed; those under way end with an error.
cohort_world* current_world();

}  // namespace cohort::tensorflow
