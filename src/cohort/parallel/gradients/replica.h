#pragma once

#include <torch/torch.h>

#include "cohort/collective/group.h"
#include "cohort/parallel/devices/device_transport.h"

namespace cohort::membership {
class ElasticMembership;
}

namespace cohort::parallel {

class Servers;

// One copy of the model: a thread of its own, a device of its own, and a rank among all replicas
// of the job. A worker process has one, or several (mirrored). A value; `group`,
// `servers` and `elastic` are lent by the Strategy that made it.
struct Replica {
  int local = 0;  // index among this process's replicas
  int rank = 0;   // among the job's replicas: worker rank * replicas a worker + local
  int size = 1;   // replicas of the job
  torch::Device device = torch::kCPU;
  // Of all replicas; rank and size as above. With parameter servers it reaches no other worker:
  // collectives throw InvalidInput.
  collective::Group* group = nullptr;
  Servers* servers = nullptr;  // parameter servers, where the strategy has them
  // In an elastic job: who else is there, now. `rank`, `size` and `group` are then those of the
  // start, and `group` is null before the worker has entered.
  membership::ElasticMembership* elastic = nullptr;
  // How gradients travel between GPUs, for groups that are formed while it trains.
  DeviceTransport transport = DeviceTransport::host;

  bool is_first() const { return rank == 0; }
};

}  // namespace cohort::parallel
