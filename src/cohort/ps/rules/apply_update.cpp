#include "cohort/ps/rules/apply_update.h"

#include "cohort/ps/rules/update_rule_table.h"

namespace cohort::ps {
namespace {

ApplyFunction best_apply() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return apply_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return apply_avx2;
  return apply_plain;
}

}  // namespace

bool apply(const UpdateRule& rule, const Update& update) {
  static const ApplyFunction best = best_apply();
  return best(rule, update);
}

}  // namespace cohort::ps
