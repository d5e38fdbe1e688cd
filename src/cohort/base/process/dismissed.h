#pragma once

#include "cohort/base/error.h"

namespace cohort {

// The job does not want this task any more: it was made smaller, or is over. Nothing is wrong;
// run_main() ends such a program with 0.
class Dismissed : public Error {
  using Error::Error;
};

}  // namespace cohort
