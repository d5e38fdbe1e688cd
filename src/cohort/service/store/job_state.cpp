#include <array>

#include "cohort/service/store/run_store.h"

namespace cohort::service {
namespace {

constexpr std::array<std::string_view, 7> kJobStates = {
    "queued", "starting", "running", "stopping", "succeeded", "failed", "stopped"};

}  // namespace

std::string_view name_of(JobState state) { return kJobStates.at(static_cast<std::size_t>(state)); }

std::optional<JobState> job_state_of(std::string_view name) {
  for (std::size_t i = 0; i < kJobStates.size(); ++i)
    if (kJobStates[i] == name) return static_cast<JobState>(i);
  return std::nullopt;
}

bool has_ended(JobState state) {
  return state == JobState::succeeded || state == JobState::failed || state == JobState::stopped;
}

}  // namespace cohort::service
