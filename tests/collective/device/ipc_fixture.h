#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "cohort/collective/group.h"
#include "cohort/collective/ipc/ipc.h"
#include "host_arithmetic.h"
#include "script.h"

#define SKIP_WITHOUT_STAND_IN() \
  if (!Gpu::is_stand_in()) GTEST_SKIP() << "needs the stand-in for NVIDIA's driver"

namespace cohort::collective::testing {

// What a rank that is a thread of a test has. Destroyed in the order that a program has to keep: the
// group first.
struct Rank {
  Gpu gpu;
  std::vector<DeviceStream> streams;
  std::shared_ptr<HostArithmetic> arithmetic;
  std::unique_ptr<DeviceGroup> group;

  Rank(Group& host, std::size_t slot_bytes);

  void finish();  // the streams are past all that they were given, and nothing has failed
  void run(std::vector<Step> steps, unsigned seed);
};

// Runs `body` on `size` ranks, a thread each; then all memory of GPUs must have been given back.
void spawn(int size, const std::function<void(Group& host)>& body);

}  // namespace cohort::collective::testing
