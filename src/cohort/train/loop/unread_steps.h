#pragma once

#include <c10/core/Event.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cohort/train/loop/measured_sums.h"
#include "cohort/train/sync/step_sync.h"

namespace cohort::train {

// Steps that are made, and whose losses and metrics still lie on the device: to read each would make
// the host wait for the device every time, and the device for the host. They are read by windows:
// when one is full its numbers are copied into host memory behind the work that makes them, and the
// window before it, whose copy is long done, is given out. So the host waits only where it is more
// than a window ahead of the device.
//
// Threads: confined to the replica's. Failure: what LibTorch throws, and parallel::wait_for_event().
class UnreadSteps {
 public:
  struct Step {
    StepInfo info;
    double gradient_factor = 1;      // that the update was made with
    std::vector<Measured> measured;  // of the own shards
  };
  // As read: the sums of each own shard.
  struct ReadStep {
    StepInfo info;
    double gradient_factor = 1;
    std::vector<Sums> sums;
    std::optional<double> gradient_norm;
  };

  // `window`: steps of one, at least 1. `group`: of the ranks that a step may wait for, at the most
  // so long; nullptr: there is none.
  UnreadSteps(torch::Device device, std::int64_t window, collective::Group* group = nullptr,
              std::chrono::milliseconds timeout = std::chrono::minutes(5))
      : device_(device), window_(window), group_(group), timeout_(timeout) {}

  // Returns the steps, in order, that can be given out now; none until two windows are full.
  std::vector<ReadStep> add(Step step);
  // All that are left, in order. Waits for the device.
  std::vector<ReadStep> read_all();
  bool empty() const { return steps_.empty() && copied_.steps.empty(); }

 private:
  struct Window {
    std::vector<Step> steps;
    torch::Tensor numbers;  // of all steps, on the host; undefined: nothing was on a device
    std::optional<c10::Event> copied;
  };
  void copy();
  std::vector<ReadStep> read(Window window) const;

  torch::Device device_;
  std::int64_t window_;
  collective::Group* group_;
  std::chrono::milliseconds timeout_;
  std::vector<Step> steps_;  // of the window that fills
  Window copied_;            // the one before; no steps: there is none
};

}  // namespace cohort::train
