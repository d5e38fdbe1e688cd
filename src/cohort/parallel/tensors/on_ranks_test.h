#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "cohort/collective/form.h"

namespace cohort::parallel {

// For tests: runs `body` on `size` ranks, threads of this process. An error on any fails the test.
inline void on_ranks(int size, const std::function<void(collective::Group&)>& body) {
  auto groups = collective::make_inproc_groups(size, std::chrono::seconds(30));
  std::vector<std::jthread> threads;
  for (auto& group : groups)
    threads.emplace_back([&body, &group] {
      try {
        body(*group);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << group->rank() << ": " << error.what();
        group->abort(error.what());
      }
    });
}

}  // namespace cohort::parallel
