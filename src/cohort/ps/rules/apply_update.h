#pragma once

#include "cohort/ps/rules/update_rule.h"

namespace cohort::ps {

// Makes one update. The results have the bits that torch::optim's optimizer of that name gives on
// this processor (LibTorch's loops fuse multiply and add where there is an instruction for it). One
// pass over memory. True when every element of the gradient was finite; the new values are written
// either way. Pure, thread-safe.
bool apply(const UpdateRule& rule, const Update& update);

}  // namespace cohort::ps
