#pragma once

#include <fmt/core.h>

#include <string>

namespace cohort::collective {

// A rank of the group, for errors.
struct Peer {
  int rank = 0;
  std::string task;  // may be empty
  std::string host;

  std::string name() const {
    return task.empty() ? fmt::format("rank {} on {}", rank, host)
                        : fmt::format("rank {} ({} on {})", rank, task, host);
  }
};

}  // namespace cohort::collective
