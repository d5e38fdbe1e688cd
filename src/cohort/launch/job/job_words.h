#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "cohort/launch/job/job.h"

// How the launcher words what it says about a job. Pure but for the current folder.
namespace cohort::launch {

std::string count(int number, std::string_view noun, std::string_view plural);  // "2 workers"

// "4 workers (the first as chief), a parameter server"; "2 to 8 workers".
std::string describe_tasks(const JobOptions& options);

// Relative where it lies below the current folder.
std::filesystem::path as_seen_from_here(const std::filesystem::path& path);

}  // namespace cohort::launch
