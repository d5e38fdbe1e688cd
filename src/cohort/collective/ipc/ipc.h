#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/collective/device/device_arithmetic.h"
#include "cohort/collective/device/device_group.h"
#include "cohort/collective/group.h"

// Collectives on the memory of GPUs of one host, through memory that one process has and the others
// open (CUDA IPC). Several processes may share a GPU. Ranks may also be threads of a process; they
// should have a GPU each then, as the driver may put the streams of one context behind each other.
// Steps and bytes: docs/algorithms.md.
//
// The host waits for nothing, also not for peers. So a result counts only when the stream is past
// the call and check() has not thrown since: a call that another rank has ended delivers anything.
// A peer that died, left or failed is noticed by check(), by every call, and by a thread of the group
// (FailureWatch), which lets this rank's streams go on also while its host is blocked in a launch.
// There is no deadline: a peer that lives and does not call is waited for until some rank's abort().
// Calls that differ are noticed by the rank that comes later; check() then throws on all.
//
// Calls that are captured are not compared, and where one cannot be captured, it throws and the group
// is as before: a program sees to it that all ranks replay the same graphs, or none. They do so in the
// same order, and a program puts a replay and calls beside it in order itself. None is launched when the
// group is gone; replays that are under way then are ended, as calls are.
namespace cohort::collective::ipc {

struct Options {
  // Of each of the two parts of a rank's staging memory; all ranks the same. At least 64 a rank.
  std::size_t slot_bytes = std::size_t{8} << 20;
  // Ranks with equal identity can open each other's memory. Empty: this host's (transport/host.h).
  std::string host_identity = {};
};

// Why this process cannot take part in such a group; empty: it can.
std::string problem();

// A group of the ranks of `group`, of which each calls it in a thread whose current CUDA device is
// its own. Collective. `arithmetic` serves all_reduce and reduce_scatter. It keeps nothing of
// `group`. Throws the same on every rank, with all ranks' problems: InvalidInput where they are on
// several hosts or differ in options, Error where a driver is missing or memory cannot be had or
// opened; and what the group throws.
std::unique_ptr<DeviceGroup> form(Group& group, std::shared_ptr<DeviceArithmetic> arithmetic,
                                  Deadline deadline, const Options& options = {});

}  // namespace cohort::collective::ipc
