#pragma once

#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/collective/group.h"
#include "cohort/train/checkpoint/safetensors.h"

// A training's state on its way from one replica to others, beside the collectives of their group:
// first what describes it, then the tensors, then a CRC-32C of each.
//
// Threads: each object has one of its own; its methods from one thread. Ownership: `group` must
// outlive it. Failure: what the group's send and recv throw; abort the group to make an object that
// is under way end. A tensor whose checksum differs is an Error that names it.
namespace cohort::train {

// The replica that gives. The tensors' memory must not change before wait() has returned.
class StateSender {
 public:
  StateSender(collective::Group& group, std::vector<int> receivers, const nlohmann::json& image,
              NamedTensors tensors, Deadline deadline);

  void wait();  // until everything is sent; may be called again

 private:
  void run(collective::Group& group, const std::vector<int>& receivers, const std::string& image,
           const NamedTensors& tensors, Deadline deadline);

  std::exception_ptr error_;
  std::jthread thread_;
};

// A replica that takes.
class StateReceiver {
 public:
  // Returns when the image is there; the tensors come meanwhile. `on_begun` is called on this
  // object's thread before the first of them.
  StateReceiver(collective::Group& group, int sender, Deadline deadline,
                std::function<void()> on_begun = {});

  const nlohmann::json& image() const { return image_; }
  NamedTensors take();  // waits for all of them

 private:
  void run(collective::Group& group, int sender, Deadline deadline);

  nlohmann::json image_;
  NamedTensors tensors_;
  std::exception_ptr error_;
  std::jthread thread_;
};

}  // namespace cohort::train
