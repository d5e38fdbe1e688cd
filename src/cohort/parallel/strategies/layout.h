#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "cohort/collective/group.h"
#include "cohort/parallel/strategies/flags.h"

// What the workers of a job tell each other before they lay out their replicas.
// Everything but exchange_cards() is a pure function.
namespace cohort::parallel {

struct WorkerCard {
  std::string strategy;
  int replicas = 1;
  std::string device;        // cpu or cuda
  std::string host;          // equal for workers of one host (transport::host_identity)
  std::string visible_gpus;  // CUDA_VISIBLE_DEVICES; empty where it is not set
  int gpus = 0;              // that LibTorch sees
};

// All workers' cards, by rank. Collective over `workers`.
std::vector<WorkerCard> exchange_cards(collective::Group& workers, const WorkerCard& mine);

// Throws InvalidInput that names the first worker that was given another strategy, number of
// replicas or kind of device than worker 0.
void check_same_layout(const std::vector<WorkerCard>& cards);

// The device of each of worker `rank`'s replicas. On the GPUs of one host workers line up: worker i
// of a host takes the next --num_gpus GPUs after worker i - 1, or, where CUDA_VISIBLE_DEVICES gives
// each its own, all start at their first. Without --num_gpus, `--device cuda` deals the GPUs out in
// turn, and replicas may share one. Throws InvalidInput that names what was asked for and what
// there is.
std::vector<torch::Device> choose_devices(const StrategyFlags& flags,
                                          const std::vector<WorkerCard>& cards, int rank);

}  // namespace cohort::parallel
