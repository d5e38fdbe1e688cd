#pragma once

#include "cohort/ps/rules/update_rule.h"

// One function an instruction set, with apply_update.h's contract of apply().
namespace cohort::ps {

using ApplyFunction = bool (*)(const UpdateRule& rule, const Update& update);
extern const ApplyFunction apply_plain;
extern const ApplyFunction apply_avx2;
extern const ApplyFunction apply_avx512;

}  // namespace cohort::ps
