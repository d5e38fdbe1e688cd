#include "cohort/collective/reduction/kernels_loops.h"

namespace cohort::collective {

const Kernels kernels_plain[kDataTypes][kReduceOps] = COHORT_KERNEL_TABLE;
const CopyFunction copy_plain = copy_vectors;
const CopyFunction copy_around_plain = copy_around_vectors;

}  // namespace cohort::collective
