#pragma once

#include <cstdint>

#include "cohort/base/deadline.h"
#include "cohort/ps/client/client_types.h"
#include "cohort/ps/client/server_links.h"

namespace cohort::ps {

// How a worker enters the training, once ClientState has a layout: the chief's model (`initial`,
// its own or null) goes to the servers that have none, and all agree on what it is. Returns how
// many steps of this worker every server has. Failure: as Client::begin().
std::uint64_t agree_on_model(ServerLinks& links, const InitialState* initial, Deadline deadline);

}  // namespace cohort::ps
