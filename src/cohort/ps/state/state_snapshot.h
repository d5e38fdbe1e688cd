#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/ps/state/server_state.h"

namespace cohort::ps {

// The whole state as a row of pieces (each at most a few MiB, whole in itself; docs/formats.md),
// enough to make an equal one: versions and ledgers included. Consistent as long as nothing changes
// it meanwhile.
void write_snapshot(const ServerState& state,
                    const std::function<void(std::string_view piece)>& write);

// Makes a state in `file`, a memory file, from the pieces, in order; `read` gives nothing after the
// last. Throws InvalidInput for pieces that are not a whole snapshot of this server's share, and
// what ServerState::create throws.
std::unique_ptr<ServerState> state_from_snapshot(
    int file, ServerState::Options options,
    const std::function<std::optional<std::string>()>& read);

}  // namespace cohort::ps
