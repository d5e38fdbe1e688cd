#include "cohort/collective/reduction/kernels_loops.h"

namespace cohort::collective {

const Kernels kernels_avx2[kDataTypes][kReduceOps] = COHORT_KERNEL_TABLE;
const CopyFunction copy_avx2 = copy_vectors;
const CopyFunction copy_around_avx2 = copy_around_vectors;

}  // namespace cohort::collective
