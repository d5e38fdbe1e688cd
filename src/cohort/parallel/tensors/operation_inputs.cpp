// Sees the class as LibTorch does (operation_inputs.h): before any header, and so without the precompiled one.
#ifndef NDEBUG
#define NDEBUG
#endif

#include "cohort/parallel/tensors/operation_inputs.h"

namespace cohort::parallel {

c10::ArrayRef<const c10::IValue> inputs_of(const at::RecordFunction& operation) {
  return operation.inputs();
}

}  // namespace cohort::parallel
