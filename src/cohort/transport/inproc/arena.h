#pragma once

#include <memory>
#include <vector>

#include "cohort/transport/arena.h"

namespace cohort::transport::inproc {

// One arena for `size` ranks that are threads of this process, one object a rank. Every pointer is
// reachable, so collectives never copy through a staging area.
std::vector<std::shared_ptr<Arena>> make_arenas(int size);

}  // namespace cohort::transport::inproc
