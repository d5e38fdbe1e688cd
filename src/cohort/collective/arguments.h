#pragma once

#include "cohort/collective/backend/call.h"

namespace cohort::collective {

// Throws InvalidInput for arguments that are wrong by themselves, whatever the other ranks do.
void check_arguments(const Call& call, int rank, int size);
void check_peer(int peer, int rank, int size);

}  // namespace cohort::collective
