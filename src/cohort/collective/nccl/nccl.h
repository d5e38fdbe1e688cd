#pragma once

#include <memory>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/collective/device/device_group.h"
#include "cohort/collective/group.h"

// Collectives on the memory of GPUs through NCCL, which is found when the program runs
// (libnccl.so.2: the one that LibTorch has loaded, else the one that the loader finds): one binary
// works with and without it, and is built without its headers.
namespace cohort::collective::nccl {

// Of the library; empty where there is none, and `why` says what was looked for and failed.
std::string version(std::string* why = nullptr);
// Whether several ranks may share a GPU: 2.30 or newer with NCCL_MULTI_RANK_GPU_ENABLE=1.
bool may_share_gpu();

// A communicator of the ranks of `group`, each on the current CUDA device of its thread. Collective.
// `group` must outlive it. Throws InvalidInput where there is no NCCL, Error with NCCL's own words
// where it refuses, TimeoutError at the deadline; what the group throws.
std::unique_ptr<DeviceGroup> form(Group& group, Deadline deadline);

}  // namespace cohort::collective::nccl
