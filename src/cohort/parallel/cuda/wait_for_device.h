#pragma once

#include <c10/core/Event.h>
#include <torch/torch.h>

#include "cohort/base/deadline.h"
#include "cohort/collective/group.h"

namespace cohort::parallel {

// The host waits until `event` has happened. What a device group has put on a stream may wait for
// ranks that have failed: throws what they failed with as soon as `group` knows, and TimeoutError
// at the deadline, after breaking the group. `group`: nullptr where no other rank has a part in it.
void wait_for_event(const c10::Event& event, collective::Group* group, Deadline deadline);

// The same for all that this thread's stream of `device` holds. On the CPU it returns at once.
void wait_for_device(torch::Device device, collective::Group* group, Deadline deadline);

}  // namespace cohort::parallel
