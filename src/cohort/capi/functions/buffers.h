#pragma once

#include "cohort/collective/group.h"

namespace cohort::capi {

// The buffers that callers hold, by their memory: they may outlive the world that they are of.
// Thread-safe.
void* keep_buffer(collective::Buffer buffer);
void free_buffer(void* memory);  // nothing happens where it is none of them

}  // namespace cohort::capi
