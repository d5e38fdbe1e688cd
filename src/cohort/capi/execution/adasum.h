#pragma once

#include <cstddef>

#include "cohort/collective/reduction/types.h"

namespace cohort::capi {

// The adaptive sum of `ranks` vectors of `elements` values, which lie one after another in `all`:
// neighbours are combined pair by pair, their results again, until one is left (with an odd number
// the last goes up a level as it is). Two vectors become
//   (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b
// with scalar products in double precision. Each vector is first multiplied by `prescale`, the
// result by `postscale`. The same bits on every rank, as all have the same input. `all` is
// overwritten. dtype: f16, bf16, f32, f64.
void combine_adasum(std::byte* all, std::size_t ranks, std::size_t elements,
                    collective::DataType dtype, double prescale, double postscale, std::byte* out);

}  // namespace cohort::capi
