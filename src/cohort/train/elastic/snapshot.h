#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "cohort/collective/group.h"
#include "cohort/train/checkpoint/safetensors.h"

namespace cohort::elastic {

// All that a State holds, at one moment. Two snapshots with the same values have the same checksum,
// in whatever process they were taken. A value, but tensors share memory when it is copied.
struct Snapshot {
  nlohmann::json values = nlohmann::json::object();  // by the name of the part
  train::NamedTensors tensors;                       // "<part>.<tensor>"
};

// CRC-32C over names, types, shapes and bytes.
std::uint32_t checksum(const Snapshot& snapshot);

// Makes `copy` equal to `live`, in host memory of its own, which it uses again from call to call.
void copy_to_host(const Snapshot& live, Snapshot& copy);

// The root's snapshot on every rank; the root gets its own back. Collective. Failure: as
// broadcast_parameters; PeerError when what came does not have the root's checksum.
Snapshot broadcast_snapshot(collective::Group& group, const Snapshot& mine, int root,
                            collective::CallOptions options = {});

}  // namespace cohort::elastic
