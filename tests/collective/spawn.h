#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "cohort/collective/group.h"

namespace cohort::collective::testing {

using Body = std::function<void(Group& group)>;

// One way to make groups. The conformance suite runs once for each.
struct Factory {
  std::string name;
  // Runs `body` on `size` ranks at once, one thread each, and returns when all are done. An
  // exception that leaves a body is a test failure.
  std::function<void(int size, std::chrono::milliseconds timeout, const Body& body)> spawn;
};

std::ostream& operator<<(std::ostream& out, const Factory& factory);

std::vector<Factory> all_factories();

// Runs body(rank) on `size` threads; exceptions become test failures.
void run_ranks(int size, const std::function<void(int rank)>& body);

}  // namespace cohort::collective::testing
