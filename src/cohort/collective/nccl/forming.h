#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/collective/group.h"
#include "cohort/collective/nccl/nccl_library.h"

namespace cohort::collective::nccl {

// One rank, before it is known whether all can take part.
struct Candidate {
  const NcclLibrary* library = nullptr;  // outlives the group; nullptr only with a problem
  std::array<std::byte, 16> device = {};
  std::string problem;  // why this rank cannot take part; empty: it can
};

bool may_share_gpu(int version);

// nccl.h's form() with a library of the caller's choice. Every decision is made by all ranks out of
// the same gathered facts, so that all throw the same or none does.
std::unique_ptr<DeviceGroup> form(Group& group, const Candidate& self, Deadline deadline,
                                  std::chrono::milliseconds timeout);

}  // namespace cohort::collective::nccl
