#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/collective/group.h"

// How what lies on GPUs travels between replicas: the flag --transport.
namespace cohort::parallel {

enum class DeviceTransport {
  host,     // through the host's memory and the group
  fitting,  // nccl or ipc, whichever fits
  nccl,     // collective/nccl
  ipc,      // collective/ipc: within a host
};

// "gpu" (fitting), "nccl", "ipc", "host"; anything else (auto, mpi) is `host`, as far as GPUs go: it
// is the one that has trained on GPUs, the others have run against stand-ins of their libraries.
DeviceTransport parse_device_transport(const std::string& flag);
std::string_view to_string(DeviceTransport transport);

// What a rank tells the others before they choose.
struct DeviceCard {
  DeviceTransport wanted = DeviceTransport::host;
  std::string host;          // equal for ranks of one host
  std::string process;       // equal for ranks that are threads of one process
  std::string gpu;           // equal for ranks that share a GPU
  std::string nccl;          // its version; empty: there is none
  std::string nccl_problem;  // why it cannot be used here; empty: it can
  bool nccl_shares_gpus = false;
  std::string ipc_problem;  // why memory cannot be opened by others; empty: it can
  bool changes = false;     // ranks come and go
};

struct DeviceChoice {
  DeviceTransport transport = DeviceTransport::host;
  std::string reason;
};

// The same on every rank. What fits: for GPUs of their own NCCL where all have the same, else ipc
// within a host; for shared GPUs, and ranks that come and go, which cannot wait for NCCL to form anew,
// ipc within a host; else the host. Pure. Throws InvalidInput where what is asked for cannot be, or
// ranks ask for different things.
DeviceChoice choose_device_transport(const std::vector<DeviceCard>& cards);

// Gives `group` the device group of its ranks' GPUs, unless it has one rank or the choice is
// the host; `device` is this rank's. Rank 0 logs what was chosen and why. Collective, on the
// replica's thread. `changes`: as DeviceCard's. Throws as choose_device_transport; what the group
// throws. Where `fitting` chose something that then cannot be formed, that is logged, and the
// host's memory is used.
void use_devices(collective::Group& group, torch::Device device, DeviceTransport wanted,
                 bool changes, Deadline deadline);

}  // namespace cohort::parallel
