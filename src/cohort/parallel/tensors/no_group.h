#pragma once

#include <memory>
#include <string>

#include "cohort/collective/group.h"

namespace cohort::parallel {

// What stands in the place of a group where there is none: rank and size are told, memory can be
// had, and every call that would need the other ranks throws InvalidInput with `reason` and
// `advice`, before anything waits.
std::unique_ptr<collective::Group> make_no_group(int rank, int size, std::string reason,
                                                 std::string advice);

}  // namespace cohort::parallel
