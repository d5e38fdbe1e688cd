#pragma once

#include <exception>
#include <string>

#include "cohort/base/error.h"
#include "cohort/capi/cohort_c.h"

namespace cohort::capi {

// How a request, or a function of the C interface, ended badly. A value.
struct Failure {
  cohort_status status = COHORT_OK;
  std::string message;
  int peer = -1;  // its rank in the world

  bool happened() const { return status != COHORT_OK; }
};

// What functions of this module throw to say COHORT_..., where no error of Cohort's means it.
class StatusError : public Error {
 public:
  explicit StatusError(Failure failure);
  const Failure& failure() const { return failure_; }

 private:
  Failure failure_;
};

// The exception that is being handled. Call it in a catch block.
Failure current_failure() noexcept;

}  // namespace cohort::capi
