#pragma once

#include <torch/torch.h>

#include "cohort/collective/reduction/types.h"

namespace cohort::parallel {

// LibTorch's name of an element type in Cohort's. Throws InvalidInput for one that groups cannot
// move (complex, quantised).
collective::DataType data_type_of(torch::ScalarType type);

// In which sums of the floating-point type `type` are made: f32 for f16 and bf16.
torch::ScalarType accumulator_of(torch::ScalarType type);

}  // namespace cohort::parallel
