#pragma once

#include <string>
#include <string_view>

#include "cohort/service/store/run_store.h"

namespace cohort::service {

// The id of a job that comes after `last` (the greatest so far; "": none): the time in UTC, then
// six hexadecimal digits of milliseconds and chance, "20261116-190102-7f3a9c". Ids rise in the order
// in which they were given, also within a millisecond and when the clock steps back.
std::string next_job_id(std::string_view last, Millis now);

}  // namespace cohort::service
