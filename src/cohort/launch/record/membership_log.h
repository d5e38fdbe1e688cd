#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "cohort/base/unique_fd.h"
#include "cohort/membership/protocol/coordinator.h"

namespace cohort::launch {

std::string_view to_string(membership::Coordinator::Phase phase);

// OUTPUT/membership.jsonl: one JSON object a line for each event, appended with one write(), so
// that a reader sees whole lines, also along the way and after a crash. docs/launcher.md lists
// the fields. A disk that is full costs lines, not the job: it is warned of once.
// Confined to one thread. The constructor throws SystemError.
class MembershipLog {
 public:
  explicit MembershipLog(std::filesystem::path path);

  void write(const membership::MembershipEvent& event);

 private:
  std::filesystem::path path_;
  UniqueFd file_;
  std::chrono::steady_clock::time_point begin_;
  bool failed_ = false;
};

// The line for one event, without its end; `seconds` since the job's start.
std::string to_json_line(const membership::MembershipEvent& event, const std::string& time,
                         double seconds);

}  // namespace cohort::launch
