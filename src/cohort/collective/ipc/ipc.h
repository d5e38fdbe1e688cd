#pragma once

#include <memory>

#include "cohort/base/deadline.h"
#include "cohort/collective/device/device_arithmetic.h"
#include "cohort/collective/device/device_group.h"
#include "cohort/collective/group.h"

// Collectives on the memory of GPUs between processes of one host, through memory that one process
// has and the others open (CUDA IPC). Several processes may share a GPU. Steps and bytes:
// docs/algorithms.md.
namespace cohort::collective::ipc {

// Why this process cannot take part in such a group; empty: it can.
std::string problem();

// A group of the ranks of `group`: processes of one host, a rank each, whose current CUDA device is
// theirs. Collective. `arithmetic` serves all_reduce and reduce_scatter. `group` must outlive it.
// Throws InvalidInput where several hosts or several ranks of one process are in `group`, Error
// where memory cannot be had or opened; what the group throws.
std::unique_ptr<DeviceGroup> form(Group& group, std::shared_ptr<DeviceArithmetic> arithmetic,
                                  Deadline deadline);

}  // namespace cohort::collective::ipc
