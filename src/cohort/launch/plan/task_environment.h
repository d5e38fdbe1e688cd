#pragma once

#include <string>
#include <vector>

#include "cohort/cluster/environment.h"
#include "cohort/launch/job/job.h"

// What a task's environment holds besides its role. Pure functions over Environment values.
namespace cohort::launch {

// Keeps a proxy in the environment from breaking connections inside the job.
// bypass: adds the hosts to no_proxy, NO_PROXY and no_grpc_proxy; http_proxy stays for downloads.
// strip: takes every proxy variable out. keep: changes nothing.
void apply_proxy_mode(cluster::Environment& environment, ProxyMode mode,
                      const std::vector<std::string>& hosts);

// The GPUs that tasks may use: CUDA_VISIBLE_DEVICES where set, else those of the driver.
std::vector<std::string> visible_gpus(const cluster::Environment& environment);

// The value of CUDA_VISIBLE_DEVICES for the worker with this local rank: its own slice of `gpus`.
// Throws InvalidInput when there are fewer than workers x per_worker.
std::string gpus_of_worker(const std::vector<std::string>& gpus, int per_worker, int workers,
                           int local_rank);

}  // namespace cohort::launch
