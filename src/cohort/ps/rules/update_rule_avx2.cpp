#include "cohort/ps/rules/update_rule_loops.h"

namespace cohort::ps {

const ApplyFunction apply_avx2 = apply_here;

}  // namespace cohort::ps
