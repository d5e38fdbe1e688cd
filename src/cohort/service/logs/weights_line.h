#pragma once

#include <string>

#include "cohort/service/logs/log_tail.h"

namespace cohort::service {

// The fingerprint of the trained weights that a Cohort program prints when it ends: the last line
// "weights HEX" of a log, among its last 64 KiB. "": there is none.
std::string weights_in_log(const ReadLog& read);

}  // namespace cohort::service
