#include "cohort/ps/rules/update_rule_loops.h"

namespace cohort::ps {

const ApplyFunction apply_plain = apply_here;

}  // namespace cohort::ps
