#pragma once

#include <cstdint>
#include <string_view>

#include "cohort/engine/attempt_folder.h"

namespace cohort::engine {

// A task's log from `offset` on, at most so many bytes. The launcher begins a file for each time
// that it starts the whole job again; to a reader they are one. `ended`: the attempt had ended
// before the call. An MPI job has "rank:N", and "mpirun:0" with what mpirun itself says.
LogChunk read_attempt_log(const AttemptFolder& folder, std::string_view task, std::uint64_t offset,
                          std::size_t most_bytes, bool ended);

}  // namespace cohort::engine
