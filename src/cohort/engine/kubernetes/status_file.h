#pragma once

#include <filesystem>
#include <optional>

#include "cohort/engine/engine.h"

// What is known of an attempt, in its folder (status.json): for the next process of the service.
namespace cohort::engine::kubernetes {

void write_status(const std::filesystem::path& folder, const AttemptStatus& status);
// Nothing where there is none that can be read.
std::optional<AttemptStatus> read_status(const std::filesystem::path& folder);

}  // namespace cohort::engine::kubernetes
