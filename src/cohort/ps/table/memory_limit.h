#pragma once

#include "cohort/base/error.h"

namespace cohort::ps {

// A server's state would not fit under its memory limit. What was asked for is not done.
class MemoryLimit : public InvalidInput {
  using InvalidInput::InvalidInput;
};

}  // namespace cohort::ps
