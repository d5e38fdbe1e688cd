#pragma once

#include <ATen/record_function.h>

namespace cohort::parallel {

// What RecordFunction::inputs() gives, in a start callback. LibTorch is built with NDEBUG, without which the class
// has a member more in its header: in a debug build of Cohort inputs() would look at memory that is not there.
c10::ArrayRef<const c10::IValue> inputs_of(const at::RecordFunction& operation);

}  // namespace cohort::parallel
