#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "cohort/train/checkpoint/safetensors.h"

namespace cohort::elastic {

// What a member without the state of the training gets: all that a State holds, or a fit(), at one
// moment. Two snapshots with the same values have the same checksum, in whatever process they were
// taken. A value, but tensors share memory when it is copied.
struct TrainingSnapshot {
  nlohmann::json values = nlohmann::json::object();
  train::TensorMap tensors;
};

// CRC-32C over names, types, shapes and bytes.
std::uint32_t checksum(const TrainingSnapshot& snapshot);

// Makes `copy` equal to `live`, in host memory of its own, which it uses again from call to call.
void copy_to_host(const TrainingSnapshot& live, TrainingSnapshot& copy);

}  // namespace cohort::elastic
